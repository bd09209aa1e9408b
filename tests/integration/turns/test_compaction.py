"""A conversation that grows beyond its model's window goes on: what was said before is summarised by the model."""

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.activities.llm.compaction import INSTRUCTIONS
from tests.support.calls.turns import named, new_session, sent, streamed, turn_events
from tests.support.providers.model_requests import ONE_PROVIDER
from tests.support.providers.script import Asked, Call, Refusal, Step, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.service import Service

LONG = "These are many words about one thing. " * 600
"""About 5,700 tokens. `generic/windowed` has a window of 16,000 (OUTLAST_MODEL_LIMITS)."""
TOO_LONG = Refusal(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")


def is_summary(body: object) -> bool:
    """Whether a request asks for a summary."""
    return INSTRUCTIONS[:40] in str(body)


def summarising(answer: Callable[[Asked], Step]) -> Callable[[Asked], Step]:
    """A model that summarises when it is asked to, and else answers as `answer` says."""

    def script(asked: Asked) -> Step:
        return says("They spoke of one thing.") if is_summary(asked.body) else answer(asked)

    return script


def refusing_more_than(size: int, answer: Callable[[Asked], Step]) -> Callable[[Asked], Step]:
    """A model whose provider refuses longer requests (characters)."""
    return lambda asked: TOO_LONG if len(str(asked.body)) > size else summarising(answer)(asked)


def prompts(provider: ProviderServer) -> list[str]:
    """What the provider was sent, without the requests for summaries."""
    return [str(seen.body) for seen in provider.requests if not is_summary(seen.body)]


async def test_a_conversation_that_nears_the_window_is_summarised_and_goes_on(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = summarising(lambda asked: says(f"Answer {asked.position}."))
    session = await new_session(api, modelId="windowed", tools=["hello_world"], maxOutputTokens=300)
    for text in ("First", "Second"):
        await sent(api, session, f"{text}: {LONG}")
    seen = [event async for event in streamed(api, session, f"Third: {LONG}")]
    assert [event.data["status"] for event in seen if event.name == "finish"] == ["completed"]
    compaction = named(seen, "compaction")[0]
    assert (compaction["summary"], compaction["step"]) == ("They spoke of one thing.", 1)
    assert compaction["summarised_messages"] == 4
    assert compaction["usage"]["output_tokens"] > 0
    latest = prompts(provider)[-1]
    assert "They spoke of one thing." in latest
    assert "First: " not in latest
    assert "Third: " in latest
    turn = named(seen, "finish")[0]["turn_id"]
    assert [event async for event in turn_events(api, session, turn)] == seen, "a later reader sees it too"
    await sent(api, session, "And now?")
    assert "They spoke of one thing." in prompts(provider)[-1], "the next turn goes on from the summary"


async def test_what_was_summarised_stays_readable(api: httpx.AsyncClient, provider: ProviderServer) -> None:
    provider.script = summarising(lambda asked: says("Yes."))
    session = await new_session(api, modelId="windowed", tools=["hello_world"])
    turns = [(await sent(api, session, f"{text}: {LONG}"))["id"] for text in ("First", "Second", "Third")]
    found = [(await api.get(f"/v1/sessions/{session}/turns/{turn}")).json()["messages"] for turn in turns]
    assert [messages[0]["parts"][0]["text"][:5] for messages in found] == ["First", "Secon", "Third"]


@pytest.fixture
async def client(service: Service) -> Client:
    return await connect(service.temporal_address)


@pytest.mark.parametrize("provider_id", ONE_PROVIDER)
async def test_a_refusal_for_length_is_recovered_from(
    api: httpx.AsyncClient, provider: ProviderServer, provider_id: str
) -> None:
    """The window of the model is not known: only the provider's refusal tells."""
    provider.script = summarising(lambda _: says("Yes."))
    session = await new_session(api, providerId=provider_id, modelId="nobody-knows", tools=["hello_world"])
    await sent(api, session, f"First: {LONG}")
    provider.script = refusing_more_than(24_000, lambda _: says("Still here."))
    turn = await sent(api, session, "Second?")
    assert (turn["status"], turn["text"]) == ("completed", "Still here.")


class _Talk:
    """A model that runs an Actor, greets twice, and is refused whenever it has said two things since a summary."""

    def __init__(self) -> None:
        self.summaries = 0

    def __call__(self, asked: Asked) -> Step:
        if is_summary(asked.body):
            self.summaries += 1
            return says(f"Summary {self.summaries}.")
        if self.summaries == 2:
            return says(f"I greeted: {asked.results[-1]}")
        rows = {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "rows": 400}}
        greeting = Call("hello_world", {"name": f"Ann {self.summaries}"})
        return TOO_LONG if asked.position >= 2 else says(greeting if asked.position else Call("call-actor", rows))


async def test_later_steps_that_meet_the_window_recover_and_everything_is_listed_once(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = _Talk()
    session = await new_session(api, tools=["hello_world", "call-actor"])
    seen = [event async for event in streamed(api, session, "Greet them all.")]
    compactions = named(seen, "compaction")
    assert [(one["step"], one["summary"]) for one in compactions] == [(3, "Summary 1."), (4, "Summary 2.")]
    assert named(seen, "finish")[0]["status"] == "completed"
    turn = (await api.get(f"/v1/sessions/{session}/turns/{named(seen, 'finish')[0]['turn_id']}")).json()
    assert turn["text"] == "I greeted: Hello, Ann 1!"
    exchange = ["assistant", "tool"]
    assert [message["role"] for message in turn["messages"]] == ["user", *exchange * 3, "assistant"]
    listed = await messages(api, session)
    assert [message["parts"] for message in listed] == [message["parts"] for message in turn["messages"]]
    assert {message["turn_id"] for message in listed} == {turn["id"]}
    (exported,) = (await api.get(f"/v1/sessions/{session}/export")).json()["turns"]
    assert exported["messages"] == turn["messages"]
    originals = [await messages(api, session, page_token=one["originals"]) for one in compactions]
    assert originals == [listed[:3], listed[:5]]
    (locator,) = {locator for one in compactions for locator in one["locators"]}
    assert [one["locators"] for one in compactions] == [[locator], [locator]]
    assert (await api.get(f"/v1/outputs/{locator}/info")).status_code == 200
    assert locator in prompts(provider)[-1]


async def messages(api: httpx.AsyncClient, session: str, **params: str) -> list[Any]:
    response = await api.get(f"/v1/sessions/{session}/messages", params=params)
    assert response.status_code == 200, response.text
    return response.json()["messages"]


@pytest.mark.parametrize(("tokens", "summaries"), [(1_000, 1), (10_000, 2)], ids=["between pieces", "after the last"])
async def test_summaries_count_and_stop_at_the_budget(
    api: httpx.AsyncClient, provider: ProviderServer, tokens: int, summaries: int
) -> None:
    provider.script = summarising(lambda _: says("Yes."))
    session = await new_session(api, modelId="windowed", tools=["hello_world"], maxOutputTokens=300)
    for text in ("First", "Second"):
        await sent(api, session, f"{text}: {LONG}")
    before = len(provider.requests)
    turn = await sent(api, session, f"Third: {LONG}", budgets={"tokens": tokens})
    assert (turn["status"], turn["reason"], turn["steps"]) == ("stopped", "budget", 0)
    asked = [is_summary(seen.body) for seen in provider.requests[before:]]
    assert asked == [True] * summaries
    assert turn["usage"]["input_tokens"] >= tokens
    assert (await api.get(f"/v1/sessions/{session}")).json()["spent"]["usage"]["input_tokens"] > tokens
    assert (await sent(api, session, f"Third: {LONG}"))["status"] == "completed"
    asked = [is_summary(seen.body) for seen in provider.requests[before + summaries :]]
    assert asked == [*[True] * (2 if summaries == 1 else 0), False], "a complete summary serves the next turn"
    assert [len(message["parts"][0]["text"]) > 99 for message in await messages(api, session)] == [True, False] * 3


async def test_without_compaction_the_turn_fails_with_the_providers_words(
    service: Service, client: Client, provider: ProviderServer
) -> None:
    settings = api_settings(service.sandbox, compaction=False, data_dir=service.folder)
    provider.script = summarising(lambda _: says("Yes."))
    async with serving_api(client, settings) as api:
        session = await new_session(api, tools=["hello_world"])
        await sent(api, session, f"First: {LONG}")
        provider.script = refusing_more_than(20_000, lambda _: says("Still here."))
        turn = await sent(api, session, "Second?")
    assert (turn["status"], turn["error"]["category"]) == ("failed", "validation")
    assert "prompt is too long" in turn["error"]["message"]


async def test_one_message_that_is_longer_than_the_window_fails(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    """There is nothing that a summary could replace."""
    provider.script = refusing_more_than(10_000, lambda _: says("Yes."))
    session = await new_session(api, tools=["hello_world"])
    turn: dict[str, Any] = await sent(api, session, LONG)
    assert (turn["status"], turn["error"]["category"]) == ("failed", "validation")
