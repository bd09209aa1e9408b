"""Rows and `until`, whatever dies: every row once, the run is stopped once it has enough, and was paid once."""

import asyncio
import time

import pytest

from outlast.api.tasks.live_rows import SETTLE_SECONDS
from outlast.client import AsyncClient, RetryPolicy, TaskRow
from tests.support.calls.tasks import row_events
from tests.support.stacks.chaos_client import Chaos, Json

PATIENT = RetryPolicy(first_pause_seconds=0.05)
STREAMS = 6
UNTIL: list[Json] = [{"rows": 40}, {"expression": "index >= `20`", "matches": 10}]


class Reader:
    """The official client, which reads the rows of a task while the API comes and goes."""

    def __init__(self, chaos: Chaos, task: str) -> None:
        self.rows: list[TaskRow] = []
        self._client = AsyncClient(chaos.stack.api_url, retries=PATIENT)
        self._reading = asyncio.create_task(self._read(task))

    async def _read(self, task: str) -> None:
        async with self._client as client, client.rows(task) as rows:
            async for row in rows:
                self.rows.append(row)

    async def finished(self) -> list[TaskRow]:
        await asyncio.wait_for(self._reading, 240)
        return self.rows


async def test_every_row_comes_once_while_everything_is_killed(chaos: Chaos) -> None:
    """Half of the reads are answered by a replica that lags besides."""
    chaos.sandbox.order_fault("late_items", path="/items", method="GET", rows=5, seconds=2, every=2)
    task = await chaos.start(seconds=15, rows=150)
    reader = Reader(chaos, task)
    for part in (chaos.stack.api, chaos.stack.worker, chaos.stack.temporal):
        before = len(reader.rows)
        await chaos.until(lambda before=before: len(reader.rows) > before or len(reader.rows) >= 150)
        await part.restart()
    await chaos.stack.bring_up()
    rows = await reader.finished()
    assert [row.data["index"] for row in rows] == list(range(150))
    dataset = rows[0].id.partition(".")[0]
    assert [row.id for row in rows] == [f"{dataset}.{number}" for number in range(1, 151)]
    ended = await chaos.ended(task)
    assert (ended["status"], ended["run"]["status"]) == ("completed", "SUCCEEDED"), ended
    result = await chaos.result(task)
    assert result is not None
    assert result["structured"]["output"]["count"] == 150, "the stored answer has them all, too"
    again = [event async for event in row_events(chaos.http, task, last_event_id=rows[99].id)]
    assert [event.id for event in again] == [*(row.id for row in rows[100:]), rows[-1].id]
    chaos.expect_one_run_per_task()


async def test_every_stream_ends_although_everything_is_killed_when_the_runs_end(chaos: Chaos) -> None:
    """What follows a run dies while it ends, and again while its answer is stored: each stream still comes to `end`."""
    tasks = [await chaos.start(seconds=10, rows=100) for _ in range(STREAMS)]
    readers = [Reader(chaos, task) for task in tasks]
    await chaos.until(lambda: all(len(reader.rows) >= 80 for reader in readers))
    await chaos.stack.worker.restart()
    await chaos.until(lambda: chaos.books.ended_as("SUCCEEDED") == STREAMS)
    for part in (chaos.stack.worker, chaos.stack.api, chaos.stack.temporal):
        await part.restart()
    await chaos.stack.bring_up()
    for task, reader in zip(tasks, readers, strict=True):
        rows = await reader.finished()
        assert [row.data["index"] for row in rows] == list(range(100))
        assert (await chaos.task(task))["status"] == "completed"
    chaos.expect_one_run_per_task(STREAMS)


async def test_a_stream_ends_although_temporal_is_away_when_its_last_row_was_read(chaos: Chaos) -> None:
    task = await chaos.start(seconds=0.1, rows=20)

    async def read() -> list[str]:
        return [event.name async for event in row_events(chaos.http, task)]

    reading = asyncio.create_task(read())
    await chaos.ended(task)
    ended = time.monotonic()
    chaos.stack.temporal.kill()
    # For so long the stream waits for rows that show late; then it reads the task.
    await chaos.until(lambda: time.monotonic() > ended + SETTLE_SECONDS + 1)
    assert (await chaos.http.get(f"/v1/tasks/{task}")).status_code == 503
    assert not reading.done()
    await chaos.stack.bring_up()
    assert (await asyncio.wait_for(reading, 240))[-1] == "end"


@pytest.mark.parametrize("until", UNTIL, ids=["rows", "expression"])
@pytest.mark.parametrize("moment", ["while it is judged", "when the run was asked to stop"])
async def test_a_run_with_enough_is_stopped_whoever_judges(chaos: Chaos, until: Json, moment: str) -> None:
    asked = chaos.sandbox.counters["abortsRequested"]
    if moment == "when the run was asked to stop":
        # Nobody hears that the platform has stopped it: the worker is killed in the middle of its request.
        chaos.sandbox.order_fault("delay_after", path="/abort", method="POST", seconds=60, times=1)
    task = await chaos.start(seconds=60, rows=600, options={"until": until})
    if moment == "while it is judged":
        await chaos.until(lambda: chaos.books.requests("GET", "/v2/actor-runs/:id") >= 1)
    else:
        await chaos.until(lambda: chaos.sandbox.counters["abortsRequested"] > asked)
    await chaos.stack.worker.restart()
    ended = await chaos.ended(task)
    assert (ended["status"], ended["run"]["status"]) == ("completed", "ABORTED"), ended
    assert ended["run"]["until_met"]["condition"] == next(iter(until))
    result = await chaos.result(task)
    assert result is not None
    assert not result["is_error"]
    rows = chaos.dataset(ended["run"]["dataset_id"])
    assert 30 <= len(rows) < 600
    chaos.expect_one_run_per_task()
