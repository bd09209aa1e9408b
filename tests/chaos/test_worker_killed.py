"""`kill -9` of the worker, at every moment of a run's life: each task ends with the right answer and one run."""

import random
import re
import time
from collections.abc import Awaitable, Callable
from datetime import datetime

import httpx
import pytest

from tests.support.calls.questions import asks, taken
from tests.support.stacks.chaos_client import Chaos

Moment = Callable[[Chaos, str], Awaitable[object]]


async def accepted(chaos: Chaos, task_id: str) -> None:
    """POST /v1/tasks has answered; no more is known."""


async def start_counted(chaos: Chaos, task_id: str) -> None:
    await chaos.until(lambda: chaos.books.starts >= 1)


async def first_status_message(chaos: Chaos, task_id: str) -> None:
    await chaos.until_message(task_id, "Slept")


async def half_way(chaos: Chaos, task_id: str) -> None:
    await chaos.until_message(task_id, "Slept 2")  # or 2.4, or 2.8, or 21: not every message is told


async def run_ended(chaos: Chaos, task_id: str) -> None:
    await chaos.until(lambda: chaos.books.ended_as("SUCCEEDED") >= 1)


async def rows_fetched(chaos: Chaos, task_id: str) -> None:
    await chaos.until(lambda: chaos.books.requests("GET", "/v2/datasets/:id/items") >= 1)


@pytest.mark.parametrize(
    ("moment", "seconds"),
    [
        pytest.param(accepted, 4, marks=pytest.mark.thorough),
        pytest.param(start_counted, 4, marks=pytest.mark.thorough),
        pytest.param(first_status_message, 4, marks=pytest.mark.thorough),
        (half_way, 30),  # a busy machine looks seldom
        (run_ended, 4),
        pytest.param(rows_fetched, 4, marks=pytest.mark.thorough),
    ],
)
async def test_a_task_outlives_its_worker(chaos: Chaos, moment: Moment, seconds: int) -> None:
    waiting = await chaos.start(seconds=seconds, mode="default")
    detached = await chaos.start(seconds=seconds, mode="openai")
    await moment(chaos, waiting)
    await chaos.stack.worker.restart()
    await chaos.expect_right_answer(waiting)
    await chaos.expect_right_answer(detached)
    chaos.expect_one_run_per_task(tasks=2)


async def test_tasks_outlive_two_workers(chaos: Chaos) -> None:
    tasks = [await chaos.start(seconds=6, mode=mode) for mode in ("default", "openai")]
    await first_status_message(chaos, tasks[0])
    await chaos.stack.worker.restart()
    await chaos.stack.worker.restart()
    for task in tasks:
        await chaos.expect_right_answer(task)
    chaos.expect_one_run_per_task(tasks=2)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.thorough)])
async def test_many_tasks_outlive_workers_killed_at_any_moment(chaos: Chaos, seed: int) -> None:
    moments = random.Random(seed)
    tasks: list[str] = []
    for _ in range(2):
        calls = [(moments.uniform(0, 3), moments.choice(["default", "openai"])) for _ in range(6)]
        tasks += [await chaos.start(seconds=seconds, mode=mode) for seconds, mode in calls]
        moment = time.monotonic() + moments.uniform(0, 1)
        await chaos.until(lambda moment=moment: time.monotonic() >= moment)
        await chaos.stack.worker.restart()
    for task in tasks:
        await chaos.expect_right_answer(task)
    chaos.expect_one_run_per_task(tasks=len(tasks))


@pytest.mark.parametrize(
    "late_seconds", [0, pytest.param(2, marks=pytest.mark.thorough)], ids=["listed at once", "listed late"]
)
async def test_a_worker_killed_before_it_learns_of_its_run_leaves_it_to_be_adopted(
    chaos: Chaos, late_seconds: int
) -> None:
    chaos.sandbox.order_fault("late_runs", path="runs", seconds=late_seconds)
    chaos.sandbox.order_fault("delay_after", method="POST", path="/runs$", seconds=2, times=1)
    task = await chaos.start(seconds=1)
    await start_counted(chaos, task)
    await chaos.stack.worker.restart()
    ended = await chaos.expect_right_answer(task)
    assert ended["run"]["run_id"] == chaos.books.run_ids()[0]
    chaos.expect_one_run_per_task()


@pytest.mark.thorough
async def test_a_refusal_before_does_not_hide_that_the_next_start_may_have_been_accepted(chaos: Chaos) -> None:
    """Each attempt to start leaves a mark for the next one; the mark of the refused attempt must not survive."""
    chaos.sandbox.limit(concurrentRuns=0)
    chaos.sandbox.order_fault("late_runs", path="runs", seconds=13)
    task = await chaos.start(seconds=1)
    await chaos.until_message(task, "concurrent-runs-limit-exceeded")
    chaos.sandbox.order_fault("delay_after", method="POST", path="/runs$", seconds=3, times=1)
    chaos.sandbox.limit(concurrentRuns=5)
    await start_counted(chaos, task)
    await chaos.stack.worker.restart()
    await chaos.expect_right_answer(task)
    chaos.expect_one_run_per_task()


async def test_a_worker_told_to_stop_waits_for_the_answer_to_a_start(chaos: Chaos) -> None:
    chaos.sandbox.order_fault("delay_after", method="POST", path="/runs$", seconds=2, times=1)
    task = await chaos.start(seconds=1)
    await start_counted(chaos, task)
    await chaos.stack.worker.terminate()
    await chaos.stack.worker.ready()
    await chaos.expect_right_answer(task)
    chaos.expect_one_run_per_task()


async def test_a_worker_that_was_frozen_does_not_go_on_with_a_start_that_is_not_its_own_any_more(chaos: Chaos) -> None:
    chaos.sandbox.order_fault("drop_before", method="POST", path="/runs$", times=1)
    task = await chaos.start(seconds=1)
    # It is looking for the run of the lost start, and would start one after that.
    await chaos.until(lambda: chaos.books.requests("GET", "/v2/actors/:id/runs") >= 1)
    chaos.stack.worker.suspend()
    await chaos.until_message(task, "Heartbeat timeout")
    chaos.stack.worker.resume()
    await chaos.expect_right_answer(task)
    chaos.expect_one_run_per_task()


async def test_a_call_lasts_as_long_as_it_waits_for_a_worker(chaos: Chaos) -> None:
    chaos.stack.worker.kill()
    task_id = await chaos.start_call("hello_world", name="Ann")
    without_worker = await _a_second(chaos)
    chaos.stack.worker.start()
    assert (await chaos.ended(task_id))["status"] == "completed"
    assert await _seconds_counted(chaos, "hello_world") >= without_worker


async def test_a_call_lasts_as_long_as_a_worker_takes_that_has_it_and_stands_still(chaos: Chaos) -> None:
    await chaos.stack.worker.restart()  # nothing is counted yet
    chaos.stack.worker.suspend()
    task_id = await chaos.start_call("order", item="nothing")  # the worker has it already, and it has one step
    stopped = await _a_second(chaos)
    chaos.stack.worker.resume()
    assert (await chaos.ended(task_id))["status"] == "completed"
    assert await _seconds_counted(chaos, "order") >= stopped


async def test_a_call_does_not_last_as_long_as_it_waits_for_its_client(chaos: Chaos) -> None:
    await chaos.stack.worker.restart()  # nothing is counted yet
    task_id = await chaos.start_call("pick_colour", colours=["red", "blue"])
    question = await asks(chaos.http, task_id)
    unanswered = await _a_second(chaos)
    await taken(chaos.http, question, {"colour": "red"})
    task = await chaos.ended(task_id)
    total = datetime.fromisoformat(task["finished_at"]) - datetime.fromisoformat(task["created_at"])
    assert await _seconds_counted(chaos, "pick_colour") <= total.total_seconds() - unanswered


async def _a_second(chaos: Chaos) -> float:
    """Let more than a second pass; return the seconds."""
    began = time.monotonic()
    await chaos.until(lambda: time.monotonic() > began + 1)
    return time.monotonic() - began


async def _seconds_counted(chaos: Chaos, tool: str) -> float:
    """Sum of the durations of a tool's calls, as the worker has counted them since it was started."""
    await chaos.stack.worker.ready()
    async with httpx.AsyncClient(trust_env=False) as http:
        metrics = (await http.get(chaos.stack.worker_url)).text
    sums = re.findall(rf'^outlast_tool_call_duration_seconds_sum\{{.*"{tool}".* (\S+)$', metrics, re.MULTILINE)
    assert len(sums) == 1, metrics
    return float(sums[0])
