"""`kill -9` in the middle of a batch: as many runs as inputs, each row once, no more money than the budget."""

import json
import logging
import random
from decimal import Decimal
from typing import Any

import httpx
import pytest

from outlast.activities.spending.contracts import exact_usd
from tests.support.calls.batches import Body, sleepers
from tests.support.eventually import eventually
from tests.support.stacks.chaos_client import Chaos

BUDGET = Decimal("1.00")
LIMIT = {"budget": {"max_total_charge_usd": "0.02"}}

log = logging.getLogger(__name__)


async def begun(chaos: Chaos, body: Body) -> str:
    """The id of a batch, which a client starts that repeats its request until it is answered."""
    headers = {"Idempotency-Key": str(random.random())}

    async def started() -> str:
        try:
            answer = await chaos.http.post("/v1/batches", json=body, headers=headers)
        except httpx.HTTPError as error:
            raise AssertionError(repr(error)) from error
        assert answer.status_code == 201, answer.text
        return answer.json()["id"]

    return await eventually(started, interval_seconds=0.5)


async def seen(chaos: Chaos, batch_id: str) -> Body:
    """The batch as it is now; meanwhile the API may be away."""

    async def answered() -> Body:
        try:
            answer = await chaos.http.get(f"/v1/batches/{batch_id}")
        except httpx.HTTPError as error:
            raise AssertionError(repr(error)) from error
        assert answer.is_success, answer.text
        return answer.json()

    return await eventually(answered, interval_seconds=0.2)


async def ended(chaos: Chaos, batch_id: str, timeout_seconds: float = 300) -> Body:
    async def over() -> Body:
        batch = await seen(chaos, batch_id)
        assert batch["status"] != "working", batch
        return batch

    return await eventually(over, timeout_seconds, 0.3)


async def rows_of(chaos: Chaos, batch_id: str) -> list[Body]:
    answer = await chaos.http.get(f"/v1/batches/{batch_id}/results")
    return [json.loads(line) for line in answer.raise_for_status().text.splitlines()]


async def until_ended(chaos: Chaos, batch_id: str, items: int) -> None:
    async def so_many() -> bool:
        batch = await seen(chaos, batch_id)
        assert batch["completed"] + batch["failed"] + batch["cancelled"] >= items or batch["status"] != "working"
        return True

    await eventually(so_many, interval_seconds=0.1)


async def expect_each_once(chaos: Chaos, batch_id: str, count: int) -> list[Body]:
    """Each item has one row and one run; what was charged is what the batch says, and within its budget."""
    rows = await rows_of(chaos, batch_id)
    assert sorted(row["index"] for row in rows) == list(range(count))
    assert len({row["task_id"] for row in rows}) == count
    charged = sum((exact_usd(chaos.sandbox.run(run)["usageTotalUsd"]) for run in chaos.books.run_ids()), Decimal(0))
    told = exact_usd((await seen(chaos, batch_id))["cost_usd"])
    assert told <= charged <= BUDGET
    return rows


def batch_of(count: int, seconds: float, **more: Any) -> Body:
    return sleepers(count, seconds, budget_usd=str(BUDGET), options=LIMIT, **more)


async def test_a_batch_outlives_worker_api_and_server_killed_in_the_middle(chaos: Chaos) -> None:
    batch_id = await begun(chaos, batch_of(40, 0.5, concurrency=6))
    for part, items in (
        (chaos.stack.worker, 3),
        (chaos.stack.api, 10),
        (chaos.stack.worker, 15),
        (chaos.stack.temporal, 22),
    ):
        await until_ended(chaos, batch_id, items)
        await part.restart()
    await chaos.stack.bring_up()
    batch = await ended(chaos, batch_id)
    assert (batch["status"], batch["completed"]) == ("completed", 40), batch
    chaos.expect_one_run_per_task(tasks=40)
    rows = await expect_each_once(chaos, batch_id, 40)
    assert {row["items"][0]["message"] for row in rows} == {f"item {number}" for number in range(40)}


async def test_a_batch_cancelled_while_its_worker_is_dead_leaves_nothing_running(chaos: Chaos) -> None:
    batch_id = await begun(chaos, batch_of(60, 0.5, concurrency=6))
    await until_ended(chaos, batch_id, 5)
    chaos.stack.worker.kill()
    assert (await chaos.http.post(f"/v1/batches/{batch_id}/cancel")).status_code == 202
    chaos.stack.worker.start()
    batch = await ended(chaos, batch_id)
    assert (batch["status"], batch["status_message"]) == ("cancelled", "Stopped: it was cancelled.")
    chaos.expect_nothing_running()
    assert set(chaos.books.runs_per_operation()) <= {1}
    stopped = await rows_of(chaos, batch_id)
    assert len({row["index"] for row in stopped}) == len(stopped) < 60
    # What was started is in the results: no run is left out.
    assert {row["run_id"] for row in stopped if "run_id" in row} >= set(chaos.books.run_ids())

    resumed = await chaos.http.post(f"/v1/batches/{batch_id}/resume", json={})
    assert resumed.status_code == 202, resumed.text
    batch = await ended(chaos, batch_id)
    assert (batch["status"], batch["completed"]) == ("completed", 60)
    await expect_each_once(chaos, batch_id, 60)


@pytest.mark.thorough
async def test_a_batch_outlives_its_worker_while_the_account_is_full(chaos: Chaos) -> None:
    chaos.sandbox.limit(concurrentRuns=2)
    batch_id = await begun(chaos, batch_of(12, 0.2, concurrency=8))
    await until_ended(chaos, batch_id, 2)
    await chaos.stack.worker.restart()
    chaos.sandbox.limit(concurrentRuns=25)
    batch = await ended(chaos, batch_id)
    assert batch["completed"] == 12, batch
    chaos.expect_one_run_per_task(tasks=12)
    await expect_each_once(chaos, batch_id, 12)


@pytest.mark.thorough
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("seed", [1, 2])
async def test_a_batch_outlives_fifty_random_kills(chaos: Chaos, seed: int) -> None:
    moments = random.Random(seed)
    parts = [chaos.stack.worker] * 6 + [chaos.stack.api, chaos.stack.api, chaos.stack.temporal]
    body = batch_of(1_000, 1, concurrency=25)
    body["budget_usd"], body["stop"] = "50", {"categories": []}
    batch_id = await begun(chaos, body)
    for kill in range(50):
        batch = await seen(chaos, batch_id)
        await until_ended(chaos, batch_id, batch["completed"] + moments.randint(0, 12))
        if kill % 10 == 5:
            chaos.sandbox.limit(concurrentRuns=moments.choice([1, 25]))
        await moments.choice(parts).restart()
        await chaos.stack.bring_up()
    chaos.sandbox.limit(concurrentRuns=25)
    batch = await ended(chaos, batch_id, 1_500)
    assert (batch["status"], batch["completed"]) == ("completed", 1_000), batch
    chaos.expect_one_run_per_task(tasks=1_000)
    rows = await rows_of(chaos, batch_id)
    assert sorted(row["index"] for row in rows) == list(range(1_000))
