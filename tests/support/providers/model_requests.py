"""Orders for model calls, and providers that call the test server."""

import itertools
from collections.abc import Sequence
from typing import Self

import pytest

from outlast.activities.contracts import Caller
from outlast.activities.conversations.contracts import ModelMessage, TextPart, ToolCallPart, ToolResultPart
from outlast.activities.llm.contracts import CallModelInput, Delta, ModelStep
from outlast.activities.llm.providers.answers import Provider
from outlast.activities.llm.providers.requests import Definition, canonical_definitions
from outlast.worker.settings import WorkerSettings
from outlast.worker.shared_tools import configured_providers
from tests.support.providers.server import KEY, ProviderServer, SeenRequest


def prompt(request: SeenRequest) -> str:
    """As it was sent, up to the end of the newest message; breakpoints, which wander on, are no part of it."""
    text = request.raw.decode().replace(',"cache_control":{"type":"ephemeral"}', "")
    ends = (text.rfind(rest) for rest in ('],"tool_choice":', '],"max_tokens":', '],"max_output_tokens":'))
    return text[: min(end for end in ends if end > 0)]


def each_begins_as_the_one_before(requests: Sequence[SeenRequest]) -> bool:
    """Whether definitions, static text and all of the conversation before are the same bytes in each next request."""
    return all(prompt(later).startswith(prompt(earlier)) for earlier, later in itertools.pairwise(requests))


PROVIDERS = ("openai", "anthropic", "zai", "generic")
ONE_PROVIDER = ["anthropic", *(pytest.param(name, marks=pytest.mark.thorough) for name in ("openai", "zai", "generic"))]
"""For what a turn does with every provider alike: the matrices of turns have each of them in every run."""
CALLER = Caller(id="caller")


def definition(name: str, description: str = "Does it.") -> Definition:
    schema = {"type": "object", "properties": {"q": {"type": "string"}}, "required": ["q"]}
    return Definition(name, description, schema)  # type: ignore[arg-type]  # JSON


DEFINITIONS = tuple(definition(name) for name in ("fetch", "search", "write"))


def user(text: str) -> ModelMessage:
    return ModelMessage(role="user", parts=(TextPart(text=text),))


class Unheard:
    """A sink of streamed text without a reader."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        pass

    def publish(self, delta: Delta) -> None:
        pass


class Heard:
    """What a listener has heard: texts, and the pieces of each call's arguments by its name."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.pieces: dict[str, list[str]] = {}

    def text(self, piece: str) -> None:
        self.texts.append(piece)

    def arguments(self, call_id: str, tool: str, piece: str) -> None:
        self.pieces.setdefault(f"{tool} {call_id}", []).append(piece)


def said(step: ModelStep) -> ModelMessage:
    """The assistant's message of a step."""
    return ModelMessage(role="assistant", parts=step.parts)


def results(calls: Sequence[ToolCallPart], text: str = "found it", *, is_error: bool = False) -> ModelMessage:
    """The results of these calls."""
    parts = tuple(ToolResultPart(call_id=one.id, name=one.name, text=text, is_error=is_error) for one in calls)
    return ModelMessage(role="tool", parts=parts)


def order(provider_id: str, *messages: ModelMessage, **changes: object) -> CallModelInput:
    """A call, by default of all three tools and streamed."""
    plain: dict[str, object] = {
        "caller": CALLER,
        "provider_id": provider_id,
        "model_id": "model-1",
        "session_id": "session",
        "turn_id": "turn",
        "step": 1,
        "system": "You are helpful.",
        "definitions_json": canonical_definitions(DEFINITIONS),
        "messages": messages or (user("Hello"),),
    }
    return CallModelInput.model_validate({**plain, **changes})


def settings_for(server: ProviderServer, **changes: object) -> WorkerSettings:
    """Settings of a worker that calls the server, whatever the environment says."""
    url = server.url
    fields: dict[str, object] = {
        "openai_api_key": KEY,
        "openai_base_url": f"{url}/v1",
        "anthropic_api_key": KEY,
        "anthropic_base_url": url,
        "zai_api_key": KEY,
        "zai_base_url": f"{url}/zai/v4",
        "generic_api_key": KEY,
        "generic_base_url": f"{url}/v1",
    }
    return WorkerSettings.model_validate({**fields, **changes})


def providers_for(server: ProviderServer, **changes: object) -> dict[str, Provider]:
    """The providers as a worker has them."""
    return configured_providers(settings_for(server, **changes))
