"""The rows of a task while its run produces them: each once, in order, whoever answers and wherever it goes on."""

import asyncio
import json

import httpx
import pytest

from tests.integration.live_rows.conftest import BOB
from tests.support.calls.tasks import RowEvent, all_rows, completed, row_events, sleeper_call, started
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.stacks.sandbox import Sandbox

NDJSON = {"Accept": "application/x-ndjson"}


def indexes(rows: list[RowEvent]) -> list[int]:
    return [event.data["index"] for event in rows]


async def test_rows_come_while_the_run_goes_on(api: httpx.AsyncClient) -> None:
    task = await started(api, sleeper_call(4, rows=40, steps=10))
    statuses: list[str] = []
    seen: list[RowEvent] = []
    async for event in row_events(api, task):
        seen.append(event)
        if len(seen) == 1:
            statuses.append((await api.get(f"/v1/tasks/{task}")).json()["status"])
    *rows, end = seen
    assert statuses == ["working"]
    assert indexes(rows) == list(range(40))
    assert [row.id for row in rows] == [f"{end.data['dataset_id']}.{number}" for number in range(1, 41)]
    assert (end.name, end.id, end.data["rows"], end.data["status"]) == ("end", rows[-1].id, 40, "completed")
    assert end.data["run_status"] == "SUCCEEDED"


async def test_a_stream_goes_on_after_any_row(api: httpx.AsyncClient) -> None:
    task = await started(api, sleeper_call(1, rows=10, steps=2))
    rows, end = await all_rows(api, task)
    assert indexes(rows) == list(range(10))
    rests = await asyncio.gather(
        all_rows(api, task, last_event_id=rows[3].id),
        all_rows(api, task, after=rows[8].id),
        all_rows(api, task, after="7"),
        all_rows(api, task, after=rows[9].id),
        # Of both, the header is newer: a browser that reconnects sends the address of the beginning again.
        all_rows(api, task, last_event_id=rows[5].id, after="1"),
    )
    assert rests == [(rows[first:], end) for first in (4, 9, 7, 10, 6)]


async def test_rows_are_lines_of_json_where_that_is_asked_for(api: httpx.AsyncClient) -> None:
    task = await started(api, sleeper_call(1, rows=5, steps=5))
    answer = await api.get(f"/v1/tasks/{task}/rows", headers=NDJSON)
    assert answer.headers["content-type"] == "application/x-ndjson"
    assert [json.loads(line)["index"] for line in answer.text.splitlines() if line] == [0, 1, 2, 3, 4]
    same = await api.get(f"/v1/tasks/{task}/rows", params={"format": "jsonl", "after": 3})
    assert [json.loads(line)["index"] for line in same.text.splitlines() if line] == [3, 4]


async def test_replicas_that_lag_lose_and_repeat_nothing(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    """Every second read misses the newest seven rows and their count, also after the end of the run."""
    sandbox.order_fault("late_items", path="/items", method="GET", rows=7, seconds=2, every=2)
    task = await started(api, sleeper_call(3, rows=30, steps=10))
    rows, end = await all_rows(api, task)
    assert indexes(rows) == list(range(30))
    assert end["rows"] == 30
    assert sum(fault["hits"] for fault in sandbox.faults) > 2


async def test_rows_of_a_dataset_that_shows_none_for_a_while_are_waited_for(
    api: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    """All reads lag until two seconds after the last row, when the run has ended long before."""
    sandbox.order_fault("late_items", path="/items", method="GET", rows=1000, seconds=2)
    task = await started(api, sleeper_call(0.2, rows=6, steps=1))
    rows, _ = await all_rows(api, task)
    assert indexes(rows) == list(range(6))


async def test_a_platform_that_fails_delays_rows_and_loses_none(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    for action in ("status", "drop_before", "truncate", "status"):
        sandbox.order_fault(action, path="/items", method="GET", times=1, after=1)
    task = await started(api, sleeper_call(2, rows=500, steps=10))
    rows, _ = await all_rows(api, task)
    assert indexes(rows) == list(range(500))


async def test_a_stream_may_begin_before_the_run(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    sandbox.limit(concurrentRuns=0)
    task = await started(api, sleeper_call(0.5, rows=2))
    reading = asyncio.create_task(all_rows(api, task))
    await eventually(lambda: sandbox.counters["requests"] and not reading.done())
    sandbox.limit(concurrentRuns=25)
    rows, _ = await reading
    assert indexes(rows) == [0, 1]


async def test_without_following_there_are_the_rows_so_far(api: httpx.AsyncClient) -> None:
    task = await started(api, sleeper_call(30, rows=30, steps=30))

    async def some() -> bool:
        rows, end = await all_rows(api, task, follow="false")
        assert end["status"] == "working"
        return 0 < len(rows) < 30

    await eventually(some)
    await api.post(f"/v1/tasks/{task}/cancel")
    rows, end = await all_rows(api, task)
    assert end["status"] == "cancelled"
    assert indexes(rows) == list(range(len(rows)))


async def test_rows_of_several_runs_follow_each_other(api: httpx.AsyncClient) -> None:
    task = await started(api, {"tool": "run-in-turn", "arguments": {"sizes": [3, 0, 2]}})
    rows, end = await all_rows(api, task)
    assert [(row.data["message"], row.data["index"]) for row in rows] == [
        ("run 0", 0),
        ("run 0", 1),
        ("run 0", 2),
        ("run 2", 0),
        ("run 2", 1),
    ]
    assert (await all_rows(api, task, after=rows[1].id))[0] == rows[2:]
    rests = await asyncio.gather(*(all_rows(api, task, after=str(received)) for received in range(6)))
    assert rests == [(rows[received:], end) for received in range(6)]


async def test_who_may_not_see_a_task_sees_no_rows(api: httpx.AsyncClient) -> None:
    task = await started(api, sleeper_call(0.1))
    foreign = await api.get(f"/v1/tasks/{task}/rows", headers=bearer(BOB))
    assert (foreign.status_code, foreign.json()["type"]) == (404, "urn:outlast:problem:task-not-found")


@pytest.mark.parametrize("after", ["x.y", "..%2f", "1" * 30, "a" * 150 + ".1", "other4dataset.3", "-1"])
async def test_a_place_that_is_none_is_refused(api: httpx.AsyncClient, after: str) -> None:
    task = (await completed(api, sleeper_call(0)))["task"]["id"]
    refused = await api.get(f"/v1/tasks/{task}/rows", params={"after": after})
    assert (refused.status_code, refused.json()["type"]) == (400, "urn:outlast:problem:bad-request")
    assert "id of the last row" in refused.json()["detail"]


async def test_a_task_without_rows_says_so(api: httpx.AsyncClient) -> None:
    task = (await completed(api, {"tool": "get-actor-run-list", "arguments": {}}))["task"]["id"]
    refused = await api.get(f"/v1/tasks/{task}/rows")
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:outlast:problem:no-rows")


async def test_rows_of_an_answer_that_was_stored_are_rows_too(api: httpx.AsyncClient) -> None:
    dataset = (await completed(api, sleeper_call(0, rows=40)))["task"]["run"]["dataset_id"]
    task = await started(api, {"tool": "keep-dataset", "arguments": {"dataset": dataset}})
    rows, end = await all_rows(api, task)
    assert indexes(rows) == list(range(40))
    assert rows[-1].id == "output.40"
    assert (await all_rows(api, task, after="output.38"))[0] == rows[38:]
    assert (end["rows"], end["status"]) == (40, "completed")


async def test_a_dataset_that_was_deleted_is_gone(api: httpx.AsyncClient, sandbox: Sandbox) -> None:
    answer = await completed(api, sleeper_call(0))
    sandbox.delete_dataset(answer["task"]["run"]["dataset_id"])
    [error] = [event async for event in row_events(api, answer["task"]["id"])]
    assert (error.name, error.id, error.data["category"], error.data["retryable"]) == (
        "error",
        None,
        "not_found",
        False,
    )
