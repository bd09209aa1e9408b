"""How the model of a turn is called: what a session and a message set, and what the model's own limits are."""

import secrets
from collections.abc import Iterator, Mapping
from typing import Any

import httpx
import pytest

from tests.support.calls.turns import new_session, sent, streamed
from tests.support.providers.script import Call, Thought, by_position, says
from tests.support.providers.server import ProviderServer

SCHEMA = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": False}


def fields(provider: ProviderServer, *names: str) -> dict[str, Any]:
    """Fields of the latest request to the provider; those that are absent are left out."""
    body = provider.requests[-1].body
    return {name: body[name] for name in names if name in body}


async def test_a_message_sets_controls_over_those_of_its_session(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says("One."), says("Two."))
    session = await new_session(api, controls={"temperature": 0.5, "seed": 7}, maxOutputTokens=500)
    await sent(api, session, "First?")
    names = ("temperature", "seed", "stop", "max_tokens")
    assert fields(provider, *names) == {"temperature": 0.5, "seed": 7, "max_tokens": 500}
    await sent(api, session, "Second?", controls={"temperature": 0, "stop": ["END"]}, maxOutputTokens=600)
    assert fields(provider, *names) == {"temperature": 0, "seed": 7, "stop": ["END"], "max_tokens": 600}
    shown = (await api.get(f"/v1/sessions/{session}")).json()
    assert shown["max_output_tokens"] == 500
    assert {name: value for name, value in shown["controls"].items() if value} == {"temperature": 0.5, "seed": 7}


async def test_the_final_text_follows_the_schema_that_was_asked_for(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says('{"a": "x"}'))
    session = await new_session(api, providerId="openai")
    turn = await sent(api, session, "As JSON.", controls={"outputSchema": SCHEMA})
    assert turn["text"] == '{"a": "x"}'
    form = fields(provider, "text")["text"]["format"]
    assert (form["type"], form["schema"], form["strict"]) == ("json_schema", SCHEMA, True)


@pytest.mark.parametrize(
    ("provider_id", "controls"), [("openai", {"effort": "high"}), ("anthropic", {"thinkingTokens": 2_000})]
)
async def test_a_model_gets_its_reasoning_back_in_the_next_step_and_the_next_turn(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str, controls: dict[str, Any]
) -> None:
    """The provider refuses a step of a thinking model in which its own reasoning is missing or changed."""
    provider.script = by_position(
        says(Thought("Greet her."), Call("hello_world", {"name": "Ann"})),
        says(Thought("Done."), "Greeted."),
        says("Yes."),
    )
    session = await new_session(api, providerId=provider_id, controls=controls)
    turn = await sent(api, session, "Greet Ann.")
    assert (turn["status"], turn["text"]) == ("completed", "Greeted.")
    parts = [part["type"] for message in turn["messages"] for part in message["parts"]]
    assert parts == ["text", "reasoning", "tool_call", "tool_result", "reasoning", "text"]
    assert (await sent(api, session, "Really?"))["text"] == "Yes."
    assert len(list(_reasoning(provider.requests[-1].body))) == 2


def _reasoning(body: Mapping[str, Any]) -> Iterator[Any]:
    """The reasoning of earlier steps that a request sends back."""
    for item in body.get("input", ()):
        if item.get("type") == "reasoning":
            yield item["encrypted_content"]
    for message in body.get("messages", ()):
        yield from (block["signature"] for block in message["content"] if block["type"] == "thinking")


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"providerId": "openai", "controls": {"stop": ["END"]}}, 400, "The provider openai does not support `stop`"),
    (
        {"providerId": "anthropic", "controls": {"temperature": 1}},
        400,
        "The provider anthropic does not support `temperature`",
    ),
    (
        {"providerId": "anthropic", "modelId": "claude-haiku-4-5", "controls": {"effort": "low"}},
        400,
        "The model claude-haiku-4-5 does not support `effort`. It supports `thinking_tokens`, `output_schema`, `stop`.",
    ),
    (
        {"providerId": "anthropic", "modelId": "claude-haiku-4-5", "maxOutputTokens": 64_001},
        400,
        "The model claude-haiku-4-5 writes at most 64000 tokens; 64001 were requested.",
    ),
    (
        {"providerId": "anthropic", "controls": {"thinkingTokens": 5_000}, "maxOutputTokens": 5_000},
        400,
        "`thinking_tokens` (5000) must be less than the output limit (5000)",
    ),
    ({"controls": {"temprature": 1}}, 422, "temprature"),
    ({"controls": {"temperature": 3}}, 422, "temperature"),
    ({"controls": {"outputSchema": {"type": "array"}}}, 422, 'must have `"type": "object"`'),
    ({"controls": {"outputSchema": {"type": "object", "required": "a"}}}, 422, "is not a JSON Schema"),
]


@pytest.mark.parametrize(("options", "status", "words"), REFUSED)
async def test_a_control_that_cannot_be_set_is_refused_by_its_name_and_begins_no_turn(
    api: httpx.AsyncClient, provider: ProviderServer, options: dict[str, Any], status: int, words: str
) -> None:
    session, count = await new_session(api), len(provider.requests)
    response = await api.post(f"/v1/sessions/{session}/messages", json={"message": "Hello?", **options})
    assert (response.status_code, len(provider.requests)) == (status, count)
    assert words in response.json()["detail"] or words in response.text
    assert (await api.get(f"/v1/sessions/{session}")).json()["turns"] == []


@pytest.mark.parametrize(("options", "status", "words"), [refused for refused in REFUSED if "providerId" in refused[0]])
async def test_a_control_that_no_message_could_have_is_refused_when_the_session_begins(
    api: httpx.AsyncClient, options: dict[str, Any], status: int, words: str
) -> None:
    begun = f"s-{secrets.token_hex(4)}"
    body = {"sessionId": begun, "modelId": "m", **options}
    response = await api.post("/v1/sessions", json=body)
    assert (response.status_code, words in response.json()["detail"]) == (status, True), response.text
    assert (await api.get(f"/v1/sessions/{begun}")).status_code == 404


@pytest.mark.parametrize("where", ["session", "message"])
async def test_an_unknown_model_is_refused_unless_the_operator_names_it(api: httpx.AsyncClient, where: str) -> None:
    """`zai/m*` is named by OUTLAST_MODEL_LIMITS; `generic` has whatever its server has."""
    for provider_id, model_id, known in [("zai", "glm-4.7-air", True), ("zai", "mine", True), ("zai", "gml-4.7", False),
                                         ("generic", "gml-4.7", True)]:  # fmt: skip
        named = {"providerId": provider_id, "modelId": model_id}
        if where == "session":
            response = await api.post("/v1/sessions", json=named)
        elif known:
            continue
        else:
            session = await new_session(api)
            response = await api.post(f"/v1/sessions/{session}/messages", json={"message": "Hello?", **named})
        assert response.status_code == (201 if known else 400), response.text
        if not known:
            detail = response.json()["detail"]
            assert "has no model 'gml-4.7' that is known here" in detail
            assert "glm-5, glm-5.3, glm-4.7" in detail
            assert 'OUTLAST_MODEL_LIMITS={"zai/gml-4.7": {}}' in detail


@pytest.mark.parametrize(
    ("provider_id", "model_id", "field", "limit"),
    [
        ("anthropic", "claude-haiku-4-5-20251001", "max_tokens", 32_000),
        ("anthropic", "claude-3-5-haiku-latest", "max_tokens", 8_192),
        ("openai", "gpt-4o-mini", "max_output_tokens", 16_384),
        ("generic", "m", "max_tokens", 4_096),
        ("generic", "small", "max_tokens", 300),
    ],
)
async def test_the_default_output_limit_is_the_models_own(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str, model_id: str, field: str, limit: int
) -> None:
    """`generic/small` is limited by OUTLAST_MODEL_LIMITS."""
    provider.script = by_position(says("Hello."))
    session = await new_session(api, providerId=provider_id, modelId=model_id)
    await sent(api, session, "Hello?")
    assert fields(provider, field) == {field: limit}


async def test_a_hook_asks_for_no_more_output_than_the_operators_limits_allow(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    """`generic/greedy` writes 100 tokens by OUTLAST_MODEL_LIMITS; its hook makes them 101."""
    turn = await sent(api, await new_session(api, modelId="greedy"), "Hello?")
    assert turn["status"] == "failed"
    assert "The model greedy writes at most 100 tokens; 101 were requested." in turn["error"]["message"]


async def test_a_hook_of_a_tools_module_sees_each_call_of_a_model(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(Call("hello_world", {"name": "Ann"})), says("Greeted."))
    session = await new_session(api, modelId="hooked")
    assert [event async for event in streamed(api, session, "Greet Ann.")][-1].data["status"] == "completed"
    assert [request.body.get("user") for request in provider.requests[-2:]] == [f"{session}-1", f"{session}-2"]
    assert provider.requests[-1].body["temperature"] == 0.25
