"""`kill -9` between reserving, paying and booking: the ledger equals what the platform has charged."""

import logging
import random
import time
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest
from temporalio.client import Client

from outlast.activities.spending.contracts import LedgerOverview, UsageRecord, exact_usd, ledger_id
from tests.support.eventually import eventually
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import ChaosStack
from tests.support.stacks.sandbox import running_sandbox

BUDGET: dict[str, Any] = {"budget": {"max_total_charge_usd": "0.01"}}
KILLS = 50

log = logging.getLogger(__name__)


@pytest.fixture(scope="module")
def chaos_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosStack]:
    folder = tmp_path_factory.mktemp("chaos-ledger")
    settings = {"OUTLAST_SPENDING": '{"per_day_usd": 1000}', "OUTLAST_RESERVATION_CHECK_SECONDS": "2"}
    with running_sandbox(folder) as sandbox, ChaosStack(folder, sandbox, **settings) as stack:
        yield stack


@pytest.fixture
async def temporal(chaos_stack: ChaosStack) -> Client:
    return await connect(chaos_stack.temporal_server.address)


async def overview(temporal: Client) -> LedgerOverview:
    return await temporal.get_workflow_handle(ledger_id("local")).query("overview", result_type=LedgerOverview)


async def settled(temporal: Client) -> LedgerOverview:
    """The ledger when nothing is reserved any more."""

    async def nothing_reserved() -> LedgerOverview | None:
        ledger = await overview(temporal)
        assert ledger.reservations == 0, ledger
        return ledger

    return await eventually(nothing_reserved, interval_seconds=0.2)


async def expect_equal_books(chaos: Chaos, temporal: Client, earlier: tuple[UsageRecord, ...] = ()) -> Decimal:
    """The ledger has the platform's runs since then, each once, with what each was charged."""
    ledger = await settled(temporal)
    booked = {record.run_id: record.cost_usd for record in ledger.records[len(earlier) :]}
    charged = {run: exact_usd(chaos.sandbox.run(run)["usageTotalUsd"]) for run in chaos.books.run_ids()}
    assert booked == charged
    assert len(ledger.records) == len(earlier) + len(booked)
    assert ledger.day.spent_usd == ledger.month.spent_usd == sum(record.cost_usd for record in ledger.records)
    usage = (await chaos.http.get("/v1/usage")).json()
    assert (usage["total_usd"], usage["caps"][0]["reserved_usd"]) == (float(ledger.day.spent_usd), 0)
    return sum(charged.values(), Decimal(0))


async def test_the_ledger_equals_the_platforms_charges_whenever_the_worker_is_killed(
    chaos: Chaos, temporal: Client
) -> None:
    # After it has reserved, before the start was sent on; after the start, before its answer came; before it settled.
    earlier = (await settled(temporal)).records if await _exists(temporal) else ()
    chaos.sandbox.order_fault("delay", method="POST", path="/runs$", seconds=3, times=1)
    tasks = [await chaos.start(seconds=1, options=BUDGET)]

    async def reserved() -> bool:
        return (await chaos.http.get("/v1/usage")).json()["caps"][0]["reserved_usd"] == 0.01

    await eventually(reserved)
    await chaos.stack.worker.restart()
    chaos.sandbox.order_fault("delay_after", method="POST", path="/runs$", seconds=2, times=1)
    starts = chaos.books.starts
    tasks.append(await chaos.start(seconds=1, options=BUDGET))
    await chaos.until(lambda: chaos.books.starts > starts)
    await chaos.stack.worker.restart()
    tasks.append(await chaos.start(seconds=2, options=BUDGET))
    await chaos.until(lambda: chaos.books.ended_as("SUCCEEDED") == 3)
    await chaos.stack.worker.restart()
    for task in tasks:
        await chaos.expect_right_answer(task)
    assert await expect_equal_books(chaos, temporal, earlier) > 0


async def test_a_run_with_two_lives_is_booked_once_whenever_the_worker_is_killed(
    chaos: Chaos, temporal: Client
) -> None:
    # Before its resurrection was sent on; after it, before the answer came.
    earlier = (await settled(temporal)).records if await _exists(temporal) else ()
    options = {"budget": {"max_total_charge_usd": "0.01", "max_run_seconds": 2}, "resurrect": {"max_times": 5}}
    tasks: list[str] = []
    for fault in ({"action": "delay", "seconds": 3}, {"action": "delay_after", "seconds": 2}):
        chaos.sandbox.order_fault(**fault, method="POST", path="/resurrect$", times=1)
        tasks.append(await chaos.start(seconds=3, options=options))
        await chaos.until(lambda: chaos.faults_left() == 0)
        await chaos.stack.worker.restart()
    for task in tasks:
        ended_task = await chaos.expect_right_answer(task)
        assert ended_task["run"]["stats"]["resurrectCount"] == 1
    await expect_equal_books(chaos, temporal, earlier)


async def test_what_a_terminated_task_has_reserved_is_settled_with_what_its_run_has_cost(
    chaos: Chaos, temporal: Client
) -> None:
    await chaos.expect_right_answer(await chaos.start(seconds=0, options=BUDGET))
    earlier = (await settled(temporal)).records[:-1]
    task = await chaos.start(seconds=4, options=BUDGET)
    await chaos.until(lambda: chaos.books.starts == 2)
    await temporal.get_workflow_handle(task).terminate()
    assert (await overview(temporal)).reservations == 1
    await expect_equal_books(chaos, temporal, earlier)


@pytest.mark.thorough
@pytest.mark.timeout(3_000)
@pytest.mark.parametrize("seed", [1])
async def test_the_ledger_equals_the_platforms_charges_after_fifty_random_kills(
    chaos: Chaos, temporal: Client, seed: int
) -> None:
    earlier = (await overview(temporal)).records if await _exists(temporal) else ()
    moments = random.Random(seed)
    parts = [chaos.stack.worker] * 8 + [chaos.stack.api, chaos.stack.temporal]
    tasks: list[str] = []
    for _ in range(KILLS):
        for _ in range(2):
            mode = moments.choice(["default", "openai"])
            tasks.append(await chaos.start(seconds=moments.uniform(0, 3), mode=mode, options=BUDGET))
        moment = time.monotonic() + moments.uniform(0, 2)
        await chaos.until(lambda moment=moment: time.monotonic() >= moment)
        await moments.choice(parts).restart()
        await chaos.stack.bring_up()
    for task in tasks:
        await chaos.expect_right_answer(task)
    chaos.expect_one_run_per_task(tasks=len(tasks))
    total = await expect_equal_books(chaos, temporal, earlier)
    log.info("%d tasks, %d kills, %s US dollars charged and booked", len(tasks), KILLS, total)


async def _exists(temporal: Client) -> bool:
    return (await temporal.count_workflows("WorkflowType = 'SpendLedgerWorkflow'")).count > 0
