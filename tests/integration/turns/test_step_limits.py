"""What a model is told, and how its turn ends, when steps or output tokens run out."""

import httpx
import pytest

from tests.support.calls.turns import named, new_session, sent, session_events, streamed
from tests.support.providers.model_requests import ONE_PROVIDER, PROVIDERS
from tests.support.providers.script import Asked, Call, Reply, Step, by_position, says
from tests.support.providers.server import ProviderServer

GREETING = Call("hello_world", {"name": "Ann"})


@pytest.mark.parametrize("provider_id", ONE_PROVIDER)
async def test_a_model_that_only_calls_tools_ends_with_words(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str
) -> None:
    provider.script = lambda asked: says(GREETING) if asked.tools else says("Greeted.")
    turn = await sent(api, await new_session(api, providerId=provider_id, maxSteps=2), "Greet.")
    assert (turn["status"], turn["reason"]) == ("stopped", "max_steps")
    last = turn["messages"][-1]
    assert (last["role"], [part["type"] for part in last["parts"]]) == ("assistant", ["text"])
    assert turn["text"] == last["parts"][0]["text"]


@pytest.mark.parametrize("provider_id", ONE_PROVIDER)
async def test_a_model_that_says_nothing_in_the_last_step_is_asked_once_more(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str
) -> None:
    def script(asked: Asked) -> Step:
        if "No tool may be called any more" in str(asked.body):
            return says("Greeted.")
        return says() if asked.results else says(GREETING)

    provider.script = script
    before = len(provider.requests)
    turn = await sent(api, await new_session(api, providerId=provider_id, maxSteps=2), "Greet.")
    assert (turn["status"], turn["reason"], turn["text"]) == ("stopped", "max_steps", "Greeted.")
    assert (turn["steps"], len(provider.requests) - before) == (3, 3)
    assert not [request.refused for request in provider.requests[before:] if request.refused]
    callable_tools = provider.requests[-1].asked.callable_tools
    assert not callable_tools


@pytest.mark.parametrize(
    "last", [(GREETING,), (), (Call("no such tool", "{"), GREETING)], ids=["call", "none", "calls"]
)
@pytest.mark.parametrize("provider_id", PROVIDERS)
async def test_a_model_that_calls_tools_to_the_very_end_leaves_a_text_all_the_same(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str, last: tuple[Call, ...]
) -> None:
    before = len(provider.requests)
    provider.heeds_tool_choice = False
    provider.script = lambda asked: says(*last) if asked.number - before >= 2 else says(GREETING)
    try:
        session = await new_session(api, providerId=provider_id, maxSteps=2)
        turn = await sent(api, session, "Greet.")
    finally:
        provider.heeds_tool_choice = True
    assert (turn["status"], turn["reason"], turn["steps"]) == ("stopped", "max_steps", 3)
    assert turn["text"]
    final = turn["messages"][-1]
    assert (final["role"], [part["type"] for part in final["parts"]]) == ("assistant", ["text"])
    assert final["parts"][0]["text"] == turn["text"]
    provider.script = by_position(says("Hello again."))
    assert (await sent(api, session, "And now?"))["text"] == "Hello again."


async def test_a_turn_whose_budget_is_used_up_is_not_asked_again(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(GREETING), says())
    turn = await sent(api, await new_session(api, maxSteps=1), "Greet.", budgets={"tokens": 1})
    assert (turn["reason"], turn["steps"]) == ("max_steps", 1)


async def test_an_answer_before_the_last_step_completes_the_turn(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(GREETING), says("Greeted."))
    turn = await sent(api, await new_session(api, maxSteps=3), "Greet.")
    assert (turn["status"], turn["reason"]) == ("completed", "stop")


async def test_without_tools_to_withhold_no_step_is_missed(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = by_position(says("Hello."))
    turn = await sent(api, await new_session(api, tools=[], maxSteps=1), "Hello?")
    assert (turn["status"], turn["reason"]) == ("completed", "stop")


@pytest.mark.parametrize("arguments", ['{"text": "Once upon a ti', ""], ids=["inside", "before"])
@pytest.mark.parametrize("provider_id", ONE_PROVIDER)
async def test_a_call_that_is_cut_off_is_told_as_that_and_counts_for_nothing(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str, arguments: str
) -> None:
    cut = Reply(("Let me write. ", Call("hello_world", {"name": "Ann"}), Call("say", arguments)), finish="length")
    provider.script = by_position(cut, cut, cut, says(Call("say", {"text": "Once."})), says("Done."))
    session = await new_session(api, providerId=provider_id)
    seen = [event async for event in streamed(api, session, "Tell a story.")]
    results = [result for result in named(seen, "tool-result") if result["tool"] == "say"]
    assert [result["is_error"] for result in results] == [True, True, True, False]
    for result in results[:3]:
        assert "cut after" in result["error"]["message"]
        assert "Write less" in result["error"]["hint"]
        assert "JSON" not in result["preview"]
    assert [result["is_error"] for result in named(seen, "tool-result") if result["tool"] == "hello_world"] == [
        False
    ] * 3
    (end,) = named(seen, "finish")
    assert (end["status"], end["reason"]) == ("completed", "stop")
    told = await session_events(api, session, 7)
    refused = [event.data for event in told if event.name == "call_refused"]
    assert (len(refused), [one.get("self_correction") for one in refused]) == (3, [None] * 3)


async def test_a_complete_call_before_the_limit_is_carried_out(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(Reply((Call("say", {"text": "Whole."}),), finish="length"), says("Done."))
    seen = [event async for event in streamed(api, await new_session(api), "Say it.")]
    assert [result["preview"] for result in named(seen, "tool-result")] == ["Whole."]
