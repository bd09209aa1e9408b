"""Controls of a model call: what each provider is sent, what it is refused, what comes back in the next step."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from outlast.activities.conversations.contracts import ReasoningPart
from outlast.activities.llm.activities import ModelActivities
from outlast.activities.llm.contracts import ChatParams, ChatParamsHook, ModelStep
from outlast.activities.llm.providers.answers import Provider
from tests.support.providers.model_requests import PROVIDERS, Unheard, order, providers_for, results, said, user
from tests.support.providers.script import Call, Reply, Thought, by_position, says
from tests.support.providers.server import ProviderServer, running_provider

CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}


@pytest.fixture(scope="module")
def server() -> Iterator[ProviderServer]:
    with running_provider(by_position(says("Hello."))) as server:
        yield server


@pytest.fixture
async def providers(server: ProviderServer) -> AsyncIterator[dict[str, Provider]]:
    providers = providers_for(server)
    yield providers
    for provider in providers.values():
        await provider.close()


async def call(
    providers: dict[str, Provider], name: str, *messages: Any, hooks: tuple[ChatParamsHook, ...] = (), **changes: object
) -> ModelStep:
    activities = ModelActivities(providers, open_sink=Unheard, hooks=hooks)
    return await ActivityEnvironment().run(activities.call_model, order(name, *messages, **changes))


FORM = {"type": "json_schema", "name": "answer", "schema": CLOSED, "strict": True}
FORM_OF_CHAT = {"name": "answer", "schema": CLOSED, "strict": True}
SENT: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("openai", {"temperature": 0.5}, {"temperature": 0.5}),
    ("openai", {"effort": "low"}, {"reasoning": {"effort": "low"}, "include": ["reasoning.encrypted_content"]}),
    ("openai", {"effort": "none"}, {"reasoning": {"effort": "none"}}),
    ("openai", {"output_schema": CLOSED}, {"text": {"format": FORM}}),
    ("anthropic", {"effort": "high"}, {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}),
    ("anthropic", {"effort": "none"}, {"thinking": {"type": "disabled"}}),
    ("anthropic", {"thinking_tokens": 2_000}, {"thinking": {"type": "enabled", "budget_tokens": 2_000}}),
    ("anthropic", {"output_schema": CLOSED}, {"output_config": {"format": {"type": "json_schema", "schema": CLOSED}}}),
    ("anthropic", {"stop": ["END"]}, {"stop_sequences": ["END"]}),
    ("zai", {"temperature": 0, "stop": ["END"]}, {"temperature": 0, "stop": ["END"]}),
    ("zai", {"effort": "none"}, {"thinking": {"type": "disabled"}}),
    ("zai", {"effort": "high"}, {"thinking": {"type": "enabled"}, "reasoning_effort": "high"}),
    ("generic", {"temperature": 1.5, "effort": "low"}, {"temperature": 1.5, "reasoning_effort": "low"}),
    ("generic", {"stop": ["a", "b"], "seed": 7}, {"stop": ["a", "b"], "seed": 7}),
    (
        "generic",
        {"output_schema": CLOSED},
        {"response_format": {"type": "json_schema", "json_schema": FORM_OF_CHAT}},
    ),
]
CONTROL_FIELDS = {
    *("temperature", "reasoning", "include", "text", "thinking", "output_config", "stop_sequences", "stop"),
    *("reasoning_effort", "seed", "response_format"),
}


@pytest.mark.parametrize(("name", "controls", "fields"), SENT)
async def test_a_control_is_sent_in_the_providers_words(
    server: ProviderServer,
    providers: dict[str, Provider],
    name: str,
    controls: dict[str, Any],
    fields: dict[str, Any],
) -> None:
    server.script = by_position(says("Hello."))
    assert (await call(providers, name, controls=controls)).text == "Hello."
    sent = server.requests[-1].body
    assert {field: value for field, value in sent.items() if field in CONTROL_FIELDS} == fields


REFUSED = [
    (
        "openai",
        {"stop": ["END"]},
        "The provider openai does not support `stop`. It supports `temperature`, `effort`, `output_schema`.",
    ),
    ("openai", {"seed": 1}, "The provider openai does not support `seed`"),
    ("openai", {"thinking_tokens": 2_000}, "The provider openai does not support `thinking_tokens`"),
    ("anthropic", {"temperature": 1}, "The provider anthropic does not support `temperature`"),
    ("anthropic", {"seed": 1}, "The provider anthropic does not support `seed`"),
    ("anthropic", {"effort": "minimal"}, "The provider anthropic does not support `effort` 'minimal'"),
    ("zai", {"output_schema": CLOSED}, "The provider zai does not support `output_schema`"),
    ("zai", {"stop": ["a", "b"]}, "accepts at most 1 `stop` texts; 2 are set"),
    ("generic", {"thinking_tokens": 2_000}, "The provider generic does not support `thinking_tokens`"),
]


@pytest.mark.parametrize(("name", "controls", "words"), REFUSED)
async def test_a_control_that_a_provider_lacks_is_refused_by_its_name_and_nothing_is_sent(
    server: ProviderServer, providers: dict[str, Provider], name: str, controls: dict[str, Any], words: str
) -> None:
    count = len(server.requests)
    with pytest.raises(ApplicationError) as caught:
        await call(providers, name, controls=controls)
    assert words in caught.value.message
    assert (caught.value.type, caught.value.non_retryable, len(server.requests)) == ("validation", True, count)


async def test_a_schema_that_is_not_enforced_is_told(server: ProviderServer, providers: dict[str, Provider]) -> None:
    server.script = by_position(says("{}"))
    step = await call(providers, "openai", controls={"output_schema": OPEN})
    assert server.requests[-1].body["text"]["format"]["strict"] is False
    assert "set `additionalProperties: false`" in step.warnings[0]


THINKING: dict[str, dict[str, Any]] = {
    "openai": {"effort": "high"},
    "anthropic": {"thinking_tokens": 2_000},
    "zai": {"effort": "high"},
}


@pytest.mark.parametrize("name", THINKING)
async def test_reasoning_comes_back_to_the_model_in_its_place(
    server: ProviderServer, providers: dict[str, Provider], name: str
) -> None:
    server.script = by_position(says(Thought("I need x."), "I look. ", Call("search", {"q": "x"})), says("Found."))
    controls = THINKING[name]
    first = await call(providers, name, controls=controls)
    assert [part.type for part in first.parts] == ["reasoning", "text", "tool_call"]
    assert first.text == "I look. "
    messages = (user("Hello"), said(first), results(first.tool_calls))
    second = await call(providers, name, *messages, controls=controls)
    assert second.text == "Found."
    part = first.parts[0]
    assert isinstance(part, ReasoningPart)
    assert part.text == "I need x."
    assert _contains(server.requests[-1].body, part.block)


@pytest.mark.parametrize("name", THINKING)
async def test_reasoning_never_goes_to_another_model(
    server: ProviderServer, providers: dict[str, Provider], name: str
) -> None:
    """The server refuses reasoning that it has not sealed for this model."""
    server.script = by_position(says(Thought("I need x."), Call("search", {"q": "x"})), says("Found."))
    first = await call(providers, name, controls=THINKING[name])
    messages = (user("Hello"), said(first), results(first.tool_calls), user("And now?"))
    for other in PROVIDERS:
        assert (await call(providers, other, *messages, model_id="model-2")).text == "Found."
        assert "I need x." not in server.requests[-1].raw.decode()


@pytest.mark.parametrize("name", THINKING)
async def test_reasoning_that_was_cut_off_is_left_out(
    server: ProviderServer, providers: dict[str, Provider], name: str
) -> None:
    server.script = by_position(Reply((Thought("On and on"),), "length"))
    step = await call(providers, name, controls=THINKING[name])
    assert (step.parts, step.finish_reason) == ((), "length")


def calmer(params: ChatParams) -> ChatParams:
    changed = params.controls.model_copy(update={"temperature": 0.1})
    return params.model_copy(
        update={"controls": changed, "max_output_tokens": 77, "extra": {"top_p": 0.5}, "model_id": "another"}
    )


async def test_a_hook_changes_the_parameters_and_not_the_prompt(
    server: ProviderServer, providers: dict[str, Provider]
) -> None:
    server.script = by_position(says("Hello."))
    await call(providers, "generic")
    plain = server.requests[-1].body
    await call(providers, "generic", hooks=(calmer,), controls={"seed": 3})
    assert server.requests[-1].body == {**plain, "max_tokens": 77, "temperature": 0.1, "seed": 3, "top_p": 0.5}


def breaking(_: ChatParams) -> ChatParams:
    raise KeyError("missing")


def rewriting(params: ChatParams) -> ChatParams:
    return params.model_copy(update={"extra": {"tools": []}})


def overheated(params: ChatParams) -> ChatParams:
    return params.model_copy(update={"controls": params.controls.model_copy(update={"temperature": 9})})


@pytest.mark.parametrize(
    ("hook", "words"),
    [
        (breaking, "The hook breaking of CHAT_PARAMS_HOOKS failed: KeyError"),
        (rewriting, "A hook of CHAT_PARAMS_HOOKS set `tools`"),
        (overheated, "The hook overheated of CHAT_PARAMS_HOOKS failed"),
    ],
)
async def test_a_hook_that_goes_wrong_fails_the_call_with_its_name(
    server: ProviderServer, providers: dict[str, Provider], hook: ChatParamsHook, words: str
) -> None:
    count = len(server.requests)
    with pytest.raises(ApplicationError) as caught:
        await call(providers, "generic", hooks=(hook,))
    assert words in caught.value.message
    assert (caught.value.type, len(server.requests)) == ("validation", count)


def _contains(value: Any, wanted: dict[str, Any]) -> bool:
    """Whether `wanted` is somewhere in `value`, field by field."""
    if isinstance(value, dict):
        fields: dict[str, Any] = value
        if wanted.items() <= fields.items():
            return True
        return any(_contains(entry, wanted) for entry in fields.values())
    return isinstance(value, list) and any(_contains(entry, wanted) for entry in value)  # pyright: ignore[reportUnknownVariableType]
