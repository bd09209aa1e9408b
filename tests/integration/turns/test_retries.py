"""Retries of an assistant's message: carried out as before, unless told otherwise."""

from typing import Any

import httpx
import pytest

from tests.support.calls.turns import named, new_session, sent, streamed
from tests.support.providers.script import Asked, Call, Step, says
from tests.support.providers.server import ProviderServer

OPTIONS: dict[str, Any] = {
    "providerId": "anthropic",
    "modelId": "claude-x",
    "toolMask": {"hello_world": True},
    "maxSteps": 3,
    "maxOutputTokens": 321,
    "dynamic": "It is Monday.",
    "controls": {"stop": ["END"]},
}
"""Unlike those of the session in everything."""


def script(asked: Asked) -> Step:
    if not asked.results:
        return says(Call("say", {"text": "Hello."}))
    return says("I may not." if "may not be called" in asked.results[0] else "Said.")


@pytest.mark.parametrize(
    ("told", "model", "protocol", "text"),
    [
        ({}, "claude-x", "messages", "I may not."),
        ({"modelId": "claude-y"}, "claude-y", "messages", "I may not."),
        ({"toolMask": None}, "claude-x", "messages", "Said."),
        ({"providerId": "generic"}, "m", "chat", "I may not."),
    ],
    ids=["as-before", "another-model", "no-mask", "another-provider"],
)
async def test_a_retry_keeps_what_it_does_not_change(
    api: httpx.AsyncClient, provider: ProviderServer, told: dict[str, Any], model: str, protocol: str, text: str
) -> None:
    provider.script = script
    session = await new_session(api)
    first = await sent(api, session, "Say it.", **OPTIONS)
    again = await sent(api, session, None, retryOfAssistantMessageId=first["id"], **told)
    assert (first["text"], again["text"]) == ("I may not.", text)
    seen = provider.requests[-1]
    assert (seen.protocol, seen.body["model"], seen.body["max_tokens"]) == (protocol, model, 321)
    assert seen.body["stop_sequences" if protocol == "messages" else "stop"] == ["END"]
    assert "It is Monday." in str(seen.body)


async def test_a_retry_of_a_retry_keeps_the_number_of_steps(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = lambda asked: (
        says(Call("say", {"text": f"{asked.position}"})) if asked.callable_tools else says("-")
    )
    session = await new_session(api, maxSteps=20)
    turn = await sent(api, session, "Say it.", maxSteps=3)
    for _ in range(2):
        turn = await sent(api, session, None, retryOfAssistantMessageId=turn["id"])
    assert (turn["steps"], turn["reason"]) == (3, "max_steps")


async def test_the_next_message_has_the_options_of_its_session_again(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = script
    session = await new_session(api)
    first = await sent(api, session, "Say it.", **OPTIONS)
    await sent(api, session, None, retryOfAssistantMessageId=first["id"])
    provider.script = lambda asked: says("Fine.")
    seen = [event async for event in streamed(api, session, "And now?")]
    assert named(seen, "finish")[0]["status"] == "completed"
    assert provider.requests[-1].body["model"] == "m"
