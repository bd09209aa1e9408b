"""Quick reads are local activities: what happens when their process dies, and when the platform does not answer."""

import asyncio
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from tests.support.calls.histories import whole_history
from tests.support.eventually import eventually
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import Part

_ITEMS = "/v2/datasets/:id/items"
_MISSING = "Abcdefgh123456789"


async def killed(process: Part) -> None:
    """`kill -9`."""
    await process.restart()


async def stopped(process: Part) -> None:
    """SIGTERM."""
    process.ask_to_stop()
    # uvicorn ends with the signal that it got.
    assert process.process is not None
    assert await asyncio.to_thread(process.process.wait, 30) in (0, -signal.SIGTERM)
    await process.ready()


@pytest.mark.parametrize("ends", [killed, pytest.param(stopped, marks=pytest.mark.thorough)])
@pytest.mark.parametrize("of", ["worker", "api"])
async def test_reads_outlive_the_process_that_made_them(
    chaos: Chaos, of: str, ends: Callable[[Part], Awaitable[None]]
) -> None:
    dataset_id = await dataset_that_the_api_reads(chaos)
    chaos.sandbox.order_fault("hang", method="GET", path=f"/datasets/{dataset_id}/items", times=3)
    parts = {"api": chaos.stack.api, "worker": chaos.stack.worker}
    pids = {part.pid: name for name, part in parts.items()}
    reads = [await chaos.start_call("get-dataset-items", datasetId=dataset_id) for _ in range(3)]
    await chaos.until(lambda: chaos.faults_left() == 0)
    await ends(parts[of])
    for read in reads:
        task = await chaos.ended(read)
        result = await chaos.result(read)
        assert task["status"] == "completed", task
        assert result is not None
        assert [row["index"] for row in result["structured"]["items"]] == [0, 1, 2]
        told = [name async for _, name, _ in chaos.events(read) if name in ("handler_returned", "task_completed")]
        assert told == ["handler_returned", "task_completed"]
    # The API takes as many as it may, in the step that starts them; the worker has the rest.
    assert [pids.get(await _first_process(chaos, read)) for read in reads] == ["api", "api", "worker"]


async def test_reads_side_by_side_leave_each_other_alone(chaos: Chaos) -> None:
    dataset_id = await dataset_that_the_api_reads(chaos)
    chaos.sandbox.order_fault("delay", method="GET", path=f"/datasets/{dataset_id}/items", seconds=0.5, times=2)
    reads = [await chaos.start_call("get-dataset-items", datasetId=dataset_id) for _ in range(2)]
    for read in reads:
        assert (await chaos.ended(read))["status"] == "completed"
        assert await _processes(chaos, read) == [chaos.stack.api.pid], "one step, carried out once"


async def test_a_read_begins_while_temporal_records_its_start(chaos: Chaos) -> None:
    dataset_id = await dataset_that_the_api_reads(chaos)

    async def begins_without_temporal() -> bool:
        """False when the API asked Temporal for the caller's webhooks first, which it does every five seconds."""
        before = chaos.books.requests("GET", _ITEMS)
        chaos.stack.temporal.suspend()
        try:
            call = asyncio.create_task(chaos.start_call("get-dataset-items", datasetId=dataset_id))
            with suppress(AssertionError):
                await chaos.until(lambda: chaos.books.requests("GET", _ITEMS) > before, timeout_seconds=20)
            begun = chaos.books.requests("GET", _ITEMS) - before
        finally:
            chaos.stack.temporal.resume()
        [read] = await asyncio.gather(call, return_exceptions=True)
        if isinstance(read, BaseException):
            return False
        assert (await chaos.ended(read))["status"] == "completed"
        assert chaos.books.requests("GET", _ITEMS) == before + 1
        return begun == 1

    await eventually(begins_without_temporal)


@pytest.mark.parametrize(
    ("tool", "arguments", "route"),
    [
        ("get-dataset-items", {"fields": "index,url", "limit": 2, "desc": True}, _ITEMS),
        ("get-dataset-items", {"datasetId": _MISSING}, _ITEMS),
        ("get-dataset", {}, "/v2/datasets/:id"),
        ("get-dataset-schema", {}, _ITEMS),
        ("get-dataset-list", {"datasetId": None}, "/v2/datasets"),
        ("get-actor-run-list", {"datasetId": None, "limit": 1}, "/v2/actor-runs"),
        ("get-key-value-store-list", {"datasetId": None}, "/v2/key-value-stores"),
    ],
)
async def test_the_platform_is_asked_once(chaos: Chaos, tool: str, arguments: dict[str, Any], route: str) -> None:
    given = {"datasetId": await dataset_of_a_run(chaos), **arguments}
    before = chaos.books.requests("GET", route)
    read = await chaos.start_call(tool, **{name: value for name, value in given.items() if value is not None})
    ended = await chaos.ended(read)
    assert ended["status"] == ("failed" if arguments.get("datasetId") == _MISSING else "completed"), ended
    assert chaos.books.requests("GET", route) == before + 1


async def test_what_the_api_carries_out_is_counted_among_its_metrics(chaos: Chaos) -> None:
    dataset_id = await dataset_that_the_api_reads(chaos)
    read = await chaos.start_call("get-dataset-items", datasetId=dataset_id)
    assert (await chaos.ended(read))["status"] == "completed"
    assert await _first_process(chaos, read) == chaos.stack.api.pid
    metrics = (await chaos.http.get("/metrics")).text
    assert "outlast_local_reads_total{" in metrics
    assert 'tool="get-dataset-items"' in metrics


async def test_a_read_that_hangs_goes_over_to_an_activity_that_can_be_watched_and_cancelled(chaos: Chaos) -> None:
    dataset_id = await dataset_of_a_run(chaos)
    chaos.sandbox.order_fault("hang", method="GET", path=f"/datasets/{dataset_id}/items")
    read = await chaos.start_call("get-dataset-items", datasetId=dataset_id)
    await chaos.until_message(read, "Attempt 2, trying again")
    await chaos.cancel(read)
    await chaos.expect_cancelled(read)


async def dataset_of_a_run(chaos: Chaos) -> str:
    """A dataset with three rows."""
    ended = await chaos.expect_right_answer(await chaos.start(seconds=0.1))
    return ended["run"]["dataset_id"]


async def dataset_that_the_api_reads(chaos: Chaos) -> str:
    """A dataset with three rows, from when the API carries quick reads out itself.

    A process that was restarted a moment ago leaves them to the worker until it is ready for them, which is later than
    it is ready for requests on a machine with much else to do.
    """
    dataset_id = await dataset_of_a_run(chaos)

    async def is_read_by_the_api() -> bool:
        read = await chaos.start_call("get-dataset-items", datasetId=dataset_id)
        assert (await chaos.ended(read))["status"] == "completed"
        return await _first_process(chaos, read) == chaos.stack.api.pid

    await eventually(is_read_by_the_api)
    return dataset_id


async def _first_process(chaos: Chaos, task: str) -> int:
    """Id of the process that had the first step that was recorded: one that died before leaves no trace."""
    return (await _processes(chaos, task))[0]


async def _processes(chaos: Chaos, task: str) -> list[int]:
    """Ids of the processes that had the steps, one after the other."""
    temporal = await connect(chaos.stack.temporal_server.address)
    events = await whole_history(temporal, task)
    identities = [
        event.workflow_task_started_event_attributes.identity
        for event in events
        if event.HasField("workflow_task_started_event_attributes")
    ]
    return [int(identity.partition("@")[0]) for identity in identities]
