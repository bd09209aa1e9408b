"""A run that was cut short is resurrected once, whatever becomes of the request, its answer, or the worker."""

from typing import Any

import pytest

from tests.support.stacks.chaos_client import Chaos

RESURRECT = "/v2/actor-runs/[^/]+/resurrect$"
LOST_AFTER_ACCEPTANCE: list[dict[str, Any]] = [
    {"action": "drop_after"},
    {"action": "truncate"},
    {"action": "status_after", "status": 502},
]
NEVER_ARRIVED: list[dict[str, Any]] = [
    {"action": "drop_before"},
    {"action": "status", "status": 503},
    {"action": "status", "status": 429},
]


async def cut_short(chaos: Chaos, *, mode: str = "default", seconds: float = 3, rows: int = 3, limit: int = 2) -> str:
    """A call whose run is cut short once; a second resurrection would be seen in its count."""
    options: dict[str, Any] = {"budget": {"max_run_seconds": limit}, "resurrect": {"max_times": 1}}
    return await chaos.start(seconds=seconds, rows=rows, mode=mode, options=options)


async def expect_two_lives(chaos: Chaos, task_id: str) -> None:
    run = (await chaos.expect_right_answer(task_id))["run"]
    assert chaos.sandbox.run(run["run_id"])["stats"]["resurrectCount"] == 1


@pytest.mark.parametrize("faults", [LOST_AFTER_ACCEPTANCE, NEVER_ARRIVED], ids=["lost answer", "lost request"])
async def test_a_resurrection_without_an_answer_happens_once(chaos: Chaos, faults: list[dict[str, Any]]) -> None:
    chaos.order_each_once(faults, path=RESURRECT, method="POST")
    tasks = [await cut_short(chaos, mode=("default", "openai")[number % 2]) for number in range(len(faults))]
    for task in tasks:
        await expect_two_lives(chaos, task)
    assert chaos.faults_left() == 0
    chaos.expect_one_run_per_task(tasks=len(tasks))


async def test_a_replica_that_shows_the_end_of_the_first_life_misleads_nobody(chaos: Chaos) -> None:
    chaos.sandbox.order_fault("late_resurrection", path=RESURRECT, seconds=4)
    chaos.sandbox.order_fault("drop_after", path=RESURRECT, method="POST", times=1)
    tasks = [await cut_short(chaos) for _ in range(2)]
    for task in tasks:
        await expect_two_lives(chaos, task)
    chaos.expect_one_run_per_task(tasks=2)


@pytest.mark.parametrize("fault", ["delay", "delay_after"])
async def test_a_worker_that_is_killed_around_a_resurrection_leaves_it_to_another(chaos: Chaos, fault: str) -> None:
    chaos.sandbox.order_fault(fault, path=RESURRECT, method="POST", seconds=3, times=1)
    task = await cut_short(chaos)
    await chaos.until(lambda: chaos.faults_left() == 0)
    await chaos.stack.worker.restart()
    await expect_two_lives(chaos, task)
    chaos.expect_one_run_per_task()


@pytest.mark.parametrize("action", ["delay", "delay_after"])
async def test_a_call_that_is_cancelled_during_a_resurrection_leaves_no_run_running(chaos: Chaos, action: str) -> None:
    chaos.sandbox.order_fault(action, path=RESURRECT, method="POST", seconds=2, times=1)
    task = await cut_short(chaos, seconds=40, rows=10, limit=5)
    await chaos.until(lambda: chaos.faults_left() == 0)
    assert (await chaos.cancel(task)).status_code == 202
    await chaos.expect_cancelled(task)
    assert chaos.books.ended_as("ABORTED") == 1


async def test_a_call_that_is_cancelled_while_replicas_lag_leaves_no_run_running(chaos: Chaos) -> None:
    chaos.sandbox.order_fault("late_resurrection", path=RESURRECT, seconds=2)
    before = chaos.books.requests("POST", "/v2/actor-runs/:id/resurrect")
    task = await cut_short(chaos, seconds=40, rows=10, limit=5)
    await chaos.until(lambda: chaos.books.requests("POST", "/v2/actor-runs/:id/resurrect") > before)
    assert (await chaos.cancel(task)).status_code == 202
    await chaos.expect_cancelled(task)
    assert chaos.books.ended_as("ABORTED") == 1


async def test_a_killed_worker_and_a_cancelled_call_leave_no_run_running(chaos: Chaos) -> None:
    """Nobody has read the answer to the resurrection."""
    chaos.sandbox.order_fault("delay_after", path=RESURRECT, method="POST", seconds=5, times=1)
    task = await cut_short(chaos, seconds=120, rows=10, limit=13)
    await chaos.until(lambda: chaos.faults_left() == 0)
    chaos.stack.worker.kill()
    assert (await chaos.cancel(task)).status_code == 202
    await chaos.stack.bring_up()
    await chaos.expect_cancelled(task)
    chaos.expect_one_run_per_task()
