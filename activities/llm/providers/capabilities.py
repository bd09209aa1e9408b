"""What each provider can do, as data: the only place that tells providers of one protocol apart."""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal


@dataclass(frozen=True)
class Capabilities:
    """What a provider takes and gives. Everywhere: definitions are constant, whatever the mask."""

    protocol: Literal["responses", "chat", "messages"]
    base_url: str | None
    """Where the provider is when nothing else is set; None: it has to be set."""
    limits_active_tools: bool
    """Whether it can be told which of the defined tools may be called. If not, the caller refuses the others' calls."""
    forbids_all_tools: bool
    """Whether it can be told that no tool may be called. If not, the caller refuses the calls."""
    caching: Literal["automatic", "breakpoints"]
    streams_usage: Literal["always", "on_request"]
    """Whether the usage of a streamed answer has to be asked for."""
    system: Literal["instructions", "system_blocks", "system_message"]
    """Where the static text goes: always after the definitions and before the dynamic text and the conversation."""


_CHAT = Capabilities(
    protocol="chat",
    base_url=None,
    limits_active_tools=False,
    forbids_all_tools=True,
    caching="automatic",
    streams_usage="on_request",
    system="system_message",
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
        ),
        "anthropic": Capabilities(
            protocol="messages",
            base_url="https://api.anthropic.com",
            limits_active_tools=False,
            forbids_all_tools=True,
            caching="breakpoints",
            streams_usage="always",
            system="system_blocks",
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
        ),
        "generic": _CHAT,
    }
)
"""The providers by `provider_id`. `generic` is any server that speaks OpenAI's Chat Completions."""
