"""A batch followed as events: counts, rate, time left and money while it goes on, and how it has ended."""

import itertools
import json
from collections.abc import AsyncIterator

import httpx

from tests.support.calls.batches import Body, begun, carried_out, doubles, sleepers
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer


async def events_of(api: httpx.AsyncClient, batch_id: str) -> AsyncIterator[tuple[str, Body]]:
    """Name and batch of each event, to the end of the stream."""
    async with api.stream("GET", f"/v1/batches/{batch_id}/events") as response:
        assert response.status_code == 200
        assert response.headers["content-type"].startswith("text/event-stream")
        name = ""
        async for line in response.aiter_lines():
            field, _, value = line.partition(": ")
            assert field != "id", "a new stream begins with the state as it is; there is nothing to go on from"
            name = value if field == "event" else name
            if field == "data":
                yield name, json.loads(value)["data"]


async def test_a_batch_is_followed_to_its_end(api: httpx.AsyncClient) -> None:
    batch_id = await begun(api, sleepers(12, 0.5, concurrency=2, budget_usd="5"))
    told = [event async for event in events_of(api, batch_id)]
    names = [name for name, _ in told]
    assert names == ["progress"] * (len(told) - 1) + ["ended"]
    states = [batch for _, batch in told]
    ended = [batch["completed"] for batch in states]
    assert ended == sorted(ended)
    assert [one for one in ended if 0 < one < 12], "it was told of while it went on"
    assert [batch for batch in states if batch.get("per_minute") and batch.get("seconds_left")]
    assert [batch["cost_usd"] for batch in states] == sorted(batch["cost_usd"] for batch in states)
    assert all(before != after for before, after in itertools.pairwise(states))
    last = states[-1]
    assert (last["status"], last["completed"], last["budget_usd"]) == ("completed", 12, 5.0)
    assert last["cost_usd"] > 0


async def test_a_batch_that_has_ended_is_told_once(api: httpx.AsyncClient) -> None:
    batch = await carried_out(api, doubles(2))
    assert [name async for name, _ in events_of(api, batch["id"])] == ["ended"]


async def test_nobody_follows_a_batch_of_somebody_else(api: httpx.AsyncClient) -> None:
    batch = await carried_out(api, doubles(1))
    for path, headers in ((batch["id"], bearer("somebody-elses-platform-token")), ("batch-unknown", {})):
        answer = await api.get(f"/v1/batches/{path}/events", headers=headers)
        assert answer.status_code in (401, 404), answer.text


async def test_a_list_counts_a_batch_while_it_runs(api: httpx.AsyncClient) -> None:
    items = [{"arguments": {"seconds": seconds}} for seconds in (0, 0, 60)]
    body = {"tool": "outlast--sleeper", "items": items, "name": "counted in lists"}
    batch_id = await begun(api, body)

    async def listed() -> Body:
        found = (await api.get("/v1/batches", params={"only_open": True})).json()["batches"]
        (batch,) = [one for one in found if one["id"] == batch_id]
        assert (batch["status"], batch["completed"], batch["under_way"]) == ("working", 2, 1), batch
        return batch

    await eventually(listed)
    await api.post(f"/v1/batches/{batch_id}/cancel")
