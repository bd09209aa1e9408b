"""What a turn spends: its models' calls and its tools' runs are booked, and a cap that is used up stops it."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from outlast.activities.llm.compaction import INSTRUCTIONS
from tests.support.calls.turns import new_session, sent
from tests.support.http.api_client import api_client, bearer
from tests.support.providers.script import Asked, Call, Refusal, Step, by_position, says
from tests.support.providers.server import ProviderServer
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.service import Service

PRICES = {"generic/priced": {"input": 1000, "output": 1000}}
TOO_LONG = Refusal(400, "invalid_request_error", "prompt is too long: 9 tokens > 8 maximum")
RUN = Call("call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 0}})


@pytest.fixture
async def url(service: Service) -> AsyncIterator[str]:
    """The address of an API whose caller `poor` may spend a tenth of a cent a day."""
    settings = api_settings(
        service.sandbox,
        api_keys="poor:poor-key-0123456789",
        model_prices=PRICES,
        store_url=str(service.outputs),
        spending={"per_day_usd": 0.001},
    )
    temporal = await connect(service.temporal_address)
    async with serving_api(temporal, settings) as http:
        yield str(http.base_url)


async def usage(api: httpx.AsyncClient, *by: str) -> dict[str, Any]:
    return (await api.get("/v1/usage", params={"by": by})).json()


async def test_a_turn_books_each_call_of_its_model_and_each_run_of_its_tools(
    api: httpx.AsyncClient, provider: ProviderServer
) -> None:
    provider.script = by_position(says(RUN), says("Done."))
    session = await new_session(api, modelId="priced", tools=["actors"])
    turn = await sent(api, session, "Run it.")
    assert turn["status"] == "completed"
    report = (await api.get("/v1/usage", params={"by": ["model", "actor"], "session_id": session})).json()
    booked = {(row["model"], row["actor"]): row for row in report["rows"]}
    assert set(booked) == {("generic/priced", None), (None, "outlast/sleeper")}
    assert booked["generic/priced", None]["model_calls"] == 2
    tokens = turn["usage"]["input_tokens"] + turn["usage"]["output_tokens"]
    assert booked["generic/priced", None]["cost_usd"] == pytest.approx(tokens / 1000)
    assert booked[None, "outlast/sleeper"]["runs"] == 1
    assert report["total_usd"] == pytest.approx(turn["cost_usd"])


async def test_a_turn_whose_callers_cap_is_used_up_stops_as_its_budget_stops_it(
    url: str, provider: ProviderServer, service: Service
) -> None:
    provider.script = by_position(says(RUN), says("Done."))
    before = service.sandbox.counters["startsAccepted"]
    async with api_client(url, "poor-key-0123456789") as poor:
        session = await new_session(poor, modelId="priced", tools=["actors"])
        turn = await sent(poor, session, "Run it.")
        assert (turn["status"], turn["reason"], turn["steps"]) == ("stopped", "budget", 1)
        assert turn["error"]["category"] == "payment"
        assert "of the daily cap of 0.001 US dollars 0.00 are left" in turn["error"]["message"]
        # The tool that the first step asked for was not started either.
        parts = [part for message in turn["messages"] for part in message["parts"] if part["type"] == "tool_result"]
        assert ["Nothing was started" in part["text"] for part in parts] == [True]
        again = await sent(poor, session, "And now?")
        assert (again["status"], again["reason"], again["steps"]) == ("stopped", "budget", 0)
        report = await usage(poor, "model")
        assert [(row["model"], row["model_calls"]) for row in report["rows"]] == [("generic/priced", 1)]
    assert service.sandbox.counters["startsAccepted"] == before


async def test_a_cap_that_is_used_up_between_the_pieces_of_a_summary_stops_it(
    api: httpx.AsyncClient, provider: ProviderServer, service: Service
) -> None:
    long = "These are many words about one thing. " * 1_500
    summaries: list[str] = []

    def script(asked: Asked) -> Step:
        if INSTRUCTIONS[:40] in str(asked.body):
            summaries.append(str(asked.body))
            return says("They spoke of one thing.")
        return TOO_LONG if "Second" in str(asked.body) else says("Yes.")

    provider.script = script
    first = await sent(api, await new_session(api, modelId="priced", tools=["hello_world"]), f"First: {long}")
    settings = api_settings(
        service.sandbox,
        api_keys="thrifty:thrifty-key-0123456789",
        model_prices=PRICES,
        store_url=str(service.outputs),
        # Enough for the first message; the first piece of the summary uses up the rest.
        spending={"per_day_usd": round(first["cost_usd"] * 1.1, 6)},
    )
    async with serving_api(await connect(service.temporal_address), settings) as http:
        http.headers.update(bearer("thrifty-key-0123456789"))
        session = await new_session(http, modelId="priced", tools=["hello_world"])
        assert (await sent(http, session, f"First: {long}"))["status"] == "completed"
        turn = await sent(http, session, "Second?")
    assert (turn["status"], turn["reason"], turn["error"]["category"]) == ("stopped", "budget", "payment")
    assert "daily cap" in turn["error"]["message"]
    assert len(summaries) == 1
