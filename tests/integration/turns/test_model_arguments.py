"""What a model writes as arguments is foreign text: its size and shape harm no turn, and the model learns of them."""

import json
from typing import Any

import httpx
import pytest

from tests.support.calls.turns import named, new_session, sent, streamed, text_of
from tests.support.providers.script import Call, Raw, by_position, says
from tests.support.providers.server import ProviderServer

_DEEP: Any = "Ann"
for _ in range(400):
    _DEEP = {"a": _DEEP}


@pytest.mark.parametrize(
    ("name", "told"),
    [("x" * 300_000, "too long with 300012 characters"), (_DEEP, "no JSON object"), ([{}] * 60_000, "/name")],
    ids=["long", "deep", "many"],
)
async def test_a_model_reads_what_is_wrong_with_arguments_of_any_size(
    api: httpx.AsyncClient, provider: ProviderServer, name: Any, told: str
) -> None:
    provider.script = by_position(says(Call("hello_world", {"name": name})), says("Well."))
    session = await new_session(api)
    seen = [event async for event in streamed(api, session, "Greet them.")]
    assert text_of(seen).endswith("Well.")
    (result,) = named(seen, "tool-result")
    assert (result["is_error"], told in result["preview"]) == (True, True), result["preview"][:500]
    assert len(result["preview"]) < 5_000


async def test_parallel_calls_of_a_server_like_ollama_are_carried_out_with_their_own_arguments(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    """Both have index 0, and the second one's name and text are cut in the middle of a character."""

    def chunk(**fields: Any) -> bytes:
        call = {"index": 0, "type": "function", **fields}
        return f"data: {json.dumps({'choices': [{'delta': {'tool_calls': [call]}}]})}\n\n".encode()

    stream = Raw(
        (
            chunk(id="a", function={"name": "hello_world", "arguments": '{"name": "Ann"}'}),
            chunk(id="b", function={"name": "hello_world", "arguments": '{"name": "Bob \ud83d'}),
            chunk(id="b", function={"arguments": '\ude00"}'}),
            b"data: [DONE]\n\n",
        )
    )
    before = len(provider.requests)
    provider.script = lambda asked: says("Greeted.") if asked.results else stream
    session = await new_session(api, providerId="generic", modelId="m")
    seen = [event async for event in streamed(api, session, "Greet them.")]
    assert text_of(seen) == "Greeted."
    assert sorted(one["preview"] for one in named(seen, "tool-result")) == ["Hello, Ann!", "Hello, Bob 😀!"]
    assert len(provider.requests) == before + 2


async def test_a_conversation_goes_on_after_a_call_by_a_name_that_no_tool_can_have(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(Call("hello world!", {}), Call("", {})), says("Sorry."))
    turn = await sent(api, await new_session(api), "Greet them.")
    assert (turn["status"], turn["text"]) == ("completed", "Sorry.")
    assert "hello world!" in provider.requests[-1].asked.results[0]
