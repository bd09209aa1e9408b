"""`kill -9` in the middle of a batch: as many runs as inputs, each row once, no more money than the budget."""

import random
from decimal import Decimal
from typing import Any

import pytest

from outlast.activities.spending.contracts import exact_usd
from tests.support.calls.batches import Body, OutlivingBatch, sleepers
from tests.support.eventually import eventually
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.retention import hours_pass

BUDGET = Decimal("1.00")
LIMIT = {"budget": {"max_total_charge_usd": "0.02"}}


async def expect_each_once(chaos: Chaos, batch: OutlivingBatch, count: int) -> list[Body]:
    """Each item has one row and one run; what was charged is what the batch says, and within its budget."""
    rows = await batch.rows()
    assert sorted(row["index"] for row in rows) == list(range(count))
    assert len({row["task_id"] for row in rows}) == count
    charged = sum((exact_usd(chaos.sandbox.run(run)["usageTotalUsd"]) for run in chaos.books.run_ids()), Decimal(0))
    told = exact_usd((await batch.seen())["cost_usd"])
    assert told <= charged <= BUDGET
    return rows


def batch_of(count: int, seconds: float, **more: Any) -> Body:
    return sleepers(count, seconds, budget_usd=str(BUDGET), options=LIMIT, **more)


async def test_a_batch_outlives_worker_api_and_server_killed_in_the_middle(chaos: Chaos) -> None:
    batch = await OutlivingBatch.begun(chaos, batch_of(40, 0.5, concurrency=6))
    for part, items in (
        (chaos.stack.worker, 3),
        (chaos.stack.api, 10),
        (chaos.stack.worker, 15),
        (chaos.stack.temporal, 22),
    ):
        await batch.until_ended(items)
        await part.restart()
    await chaos.stack.bring_up()
    end = await batch.ended()
    assert (end["status"], end["completed"]) == ("completed", 40), end
    chaos.expect_one_run_per_task(tasks=40)
    rows = await expect_each_once(chaos, batch, 40)
    assert {row["items"][0]["message"] for row in rows} == {f"item {number}" for number in range(40)}


@pytest.mark.parametrize("reuse", [None, pytest.param({"max_age": "1h"}, marks=pytest.mark.thorough)])
async def test_a_batch_cancelled_while_its_worker_is_dead_leaves_nothing_running(
    chaos: Chaos, reuse: dict[str, str] | None
) -> None:
    body = batch_of(60, 0.5, concurrency=6)
    body["options"] = {**LIMIT, **({"reuse": reuse} if reuse else {})}
    batch = await OutlivingBatch.begun(chaos, body)
    await batch.until_ended(5)
    chaos.stack.worker.kill()
    assert (await chaos.http.post(f"/v1/batches/{batch.id}/cancel")).status_code == 202
    chaos.stack.worker.start()
    end = await batch.ended()
    assert end["status"] == "cancelled"
    assert end["status_message"].startswith("Stopped: it was cancelled. ")
    chaos.expect_nothing_running()
    assert set(chaos.books.runs_per_operation()) <= {1}
    stopped = await batch.rows()
    assert len({row["index"] for row in stopped}) == len(stopped) < 60
    # What was started is in the results: no run is left out.
    assert {row["run_id"] for row in stopped if "run_id" in row} >= set(chaos.books.run_ids())

    resumed = await chaos.http.post(f"/v1/batches/{batch.id}/resume", json={})
    assert resumed.status_code == 202, resumed.text
    end = await batch.ended()
    assert (end["status"], end["completed"]) == ("completed", 60)
    await expect_each_once(chaos, batch, 60)


@pytest.mark.thorough
async def test_a_batch_goes_on_after_an_hour_without_a_worker(chaos: Chaos) -> None:
    """The hour passes for all that has a time: the store, where its results expire and are swept; and Temporal, which
    has given the attempt of the dead worker up.
    """
    body = batch_of(30, 0.5, concurrency=5)
    body["options"] = {**LIMIT, "output": {"ttl_seconds": 3_600}}
    batch = await OutlivingBatch.begun(chaos, body)
    await batch.until_ended(6)
    chaos.stack.worker.kill()
    temporal = await connect(chaos.stack.temporal_server.address)

    async def given_up() -> bool:
        described = await temporal.get_workflow_handle(batch.id).describe()
        [attempt] = described.raw_description.pending_activities
        assert attempt.attempt > 1, attempt
        return True

    await eventually(given_up)
    await chaos.until(lambda: chaos.books.running == [])
    await hours_pass(chaos.stack.outputs, temporal, 1.1)
    chaos.stack.worker.start()
    end = await batch.ended()
    assert (end["status"], end["completed"]) == ("completed", 30), end
    chaos.expect_one_run_per_task(tasks=30)
    await expect_each_once(chaos, batch, 30)


@pytest.mark.thorough
async def test_a_batch_outlives_its_worker_while_the_account_is_full(chaos: Chaos) -> None:
    chaos.sandbox.limit(concurrentRuns=2)
    batch = await OutlivingBatch.begun(chaos, batch_of(12, 0.2, concurrency=8))
    await batch.until_ended(2)
    await chaos.stack.worker.restart()
    chaos.sandbox.limit(concurrentRuns=25)
    end = await batch.ended()
    assert end["completed"] == 12, end
    chaos.expect_one_run_per_task(tasks=12)
    await expect_each_once(chaos, batch, 12)


@pytest.mark.thorough
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_batch_outlives_fifty_random_kills(chaos: Chaos, seed: int) -> None:
    moments = random.Random(seed)
    parts = [chaos.stack.worker] * 6 + [chaos.stack.api, chaos.stack.api, chaos.stack.temporal]
    body = batch_of(1_000, 1, concurrency=25)
    body["budget_usd"], body["stop"] = "50", {"categories": []}
    batch = await OutlivingBatch.begun(chaos, body)
    for kill in range(50):
        await batch.until_ended((await batch.seen())["completed"] + moments.randint(0, 12))
        if kill % 10 == 5:
            chaos.sandbox.limit(concurrentRuns=moments.choice([1, 25]))
        await moments.choice(parts).restart()
        await chaos.stack.bring_up()
    chaos.sandbox.limit(concurrentRuns=25)
    end = await batch.ended(1_500)
    assert (end["status"], end["completed"]) == ("completed", 1_000), end
    chaos.expect_one_run_per_task(tasks=1_000)
    rows = await batch.rows()
    assert sorted(row["index"] for row in rows) == list(range(1_000))
