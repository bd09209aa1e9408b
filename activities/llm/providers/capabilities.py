"""The capabilities of each provider, as data: the only place where providers of one protocol differ."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, get_args

from outlast.activities.llm.controls import ControlName, Effort


@dataclass(frozen=True)
class Capabilities:
    """The capabilities of a provider. For all of them the tool definitions are constant, whatever the mask."""

    protocol: Literal["responses", "chat", "messages"]
    base_url: str | None
    """The default base URL; None when it has to be configured."""
    limits_active_tools: bool
    """Whether a request can limit the tools that may be called. If not, the caller refuses calls of other tools."""
    forbids_all_tools: bool
    """Whether a request can forbid all tool calls. If not, the caller refuses the calls."""
    caching: Literal["automatic", "breakpoints"]
    streams_usage: Literal["always", "on_request"]
    """Whether a streaming request has to ask for the usage."""
    system: Literal["instructions", "system_blocks", "system_message"]
    """Where the static text is sent: always after the definitions, before the dynamic text and the conversation."""
    controls: tuple[ControlName, ...]
    """The controls that a request can set; another one is refused by its name."""
    efforts: tuple[Effort, ...]
    """The values of the control `effort`."""
    most_stops: int
    """How many stop texts a request can have."""
    keeps_reasoning: bool
    """Whether the model's reasoning is sent back to it in later steps."""
    sees_pictures: bool
    """Whether its models are shown the pictures of tools, unless it is known of a model whether it sees."""


_ALL_EFFORTS: tuple[Effort, ...] = get_args(Effort)

_CHAT = Capabilities(
    protocol="chat",
    base_url=None,
    limits_active_tools=False,
    forbids_all_tools=True,
    caching="automatic",
    streams_usage="on_request",
    system="system_message",
    controls=("temperature", "effort", "output_schema", "stop", "seed"),
    efforts=_ALL_EFFORTS,
    most_stops=4,
    keeps_reasoning=False,
    sees_pictures=False,
)

MATRIX: Mapping[str, Capabilities] = MappingProxyType(
    {
        "openai": Capabilities(
            protocol="responses",
            base_url="https://api.openai.com/v1",
            limits_active_tools=True,
            forbids_all_tools=True,
            caching="automatic",
            streams_usage="always",
            system="instructions",
            controls=("temperature", "effort", "output_schema"),
            efforts=_ALL_EFFORTS,
            most_stops=0,
            keeps_reasoning=True,
            sees_pictures=True,
        ),
        "anthropic": Capabilities(
            protocol="messages",
            base_url="https://api.anthropic.com",
            limits_active_tools=False,
            forbids_all_tools=True,
            caching="breakpoints",
            streams_usage="always",
            system="system_blocks",
            # API version 2026-10-21, which the client library sends, has no `temperature`.
            controls=("effort", "thinking_tokens", "output_schema", "stop"),
            efforts=("none", "low", "medium", "high", "xhigh", "max"),
            most_stops=4,
            keeps_reasoning=True,
            sees_pictures=True,
        ),
        "zai": Capabilities(
            protocol="chat",
            base_url="https://api.z.ai/api/paas/v4",
            limits_active_tools=False,
            # Its `tool_choice` knows `auto` only.
            forbids_all_tools=False,
            caching="automatic",
            streams_usage="always",
            system="system_message",
            # Its `response_format` knows no schema.
            controls=("temperature", "effort", "stop"),
            efforts=("none", "low", "medium", "high", "xhigh", "max"),
            most_stops=1,
            keeps_reasoning=True,
            sees_pictures=False,
        ),
        "generic": _CHAT,
    }
)
"""The providers by `provider_id`. `generic` is any server that speaks OpenAI's Chat Completions."""
