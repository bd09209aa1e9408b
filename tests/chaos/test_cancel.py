"""Cancelled in any phase, a task ends as `cancelled` only when no run of it is running any more."""

from typing import Any

import pytest
from temporalio.client import WorkflowHandle

from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos, Json

START = "/v2/act(or)?s/[^/]+/runs$"
DROP_IN = pytest.param("apify", marks=pytest.mark.thorough)
WAITING_MODES = pytest.mark.parametrize("mode", ["default", DROP_IN])
"""Those whose calls wait for the run; what answers at the run's start has tests of its own."""


@WAITING_MODES
async def test_before_a_worker_has_seen_the_task(chaos: Chaos, mode: str) -> None:
    chaos.stack.worker.kill()
    tasks = [
        await chaos.start(mode=mode, seconds=60),
        await chaos.start(mode=mode, seconds=60, session="cancelled-early"),
    ]
    for task in tasks:
        assert (await chaos.cancel(task)).status_code == 202
    await chaos.stack.worker.ready()
    for task in tasks:
        await chaos.expect_cancelled(task)
    assert chaos.books.starts == 0
    listed = (await chaos.http.get("/v1/tasks", params={"status": "cancelled"})).json()["tasks"]
    assert set(tasks) <= {task["id"] for task in listed}
    temporal = await connect(chaos.stack.temporal_server.address)
    for task in tasks:
        handle: WorkflowHandle[Any, Any] = temporal.get_workflow_handle(task)
        assert "activityTaskScheduled" not in (await handle.fetch_history()).to_json()
        ended = [line for line in chaos.stack.worker.log.read_text().splitlines() if f"task={task}" in line]
        assert [line for line in ended if "task ended" in line and "outcome=cancelled" in line]


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param({"action": "delay_after", "seconds": 2}, id="answered late"),
        pytest.param({"action": "delay_after", "seconds": 20}, id="answered too late", marks=pytest.mark.thorough),
        pytest.param({"action": "drop_after"}, id="answer dropped"),
        pytest.param({"action": "truncate"}, id="answer truncated", marks=pytest.mark.thorough),
    ],
)
@WAITING_MODES
async def test_while_the_start_is_under_way_or_lost(chaos: Chaos, mode: str, fault: Json) -> None:
    chaos.sandbox.order_fault(**fault, path=START, method="POST", times=1)
    task = await chaos.start(mode=mode, seconds=60)
    await chaos.until(lambda: chaos.books.starts == 1)
    await chaos.cancel(task)
    await _expect_aborted(chaos, task)


@WAITING_MODES
async def test_while_a_lost_start_is_looked_for_in_vain(chaos: Chaos, mode: str) -> None:
    chaos.sandbox.order_fault("late_runs", path="runs", seconds=2)
    chaos.sandbox.order_fault("drop_after", path=START, method="POST", times=1)
    chaos.sandbox.order_fault("status", status=503, path=START, method="GET", times=2)
    task = await chaos.start(mode=mode, seconds=60)
    await chaos.until_message(task, "503")
    await chaos.cancel(task)
    await _expect_aborted(chaos, task)


@WAITING_MODES
async def test_while_the_platform_does_not_answer_the_start(chaos: Chaos, mode: str) -> None:
    chaos.sandbox.order_fault("hang", path=START, method="POST")
    task = await chaos.start(mode=mode, seconds=60)
    await chaos.until(lambda: chaos.sandbox.faults[0]["hits"] >= 1)
    await chaos.cancel(task)
    await chaos.expect_cancelled(task)
    assert chaos.books.starts == 0


@WAITING_MODES
async def test_while_waiting_for_capacity(chaos: Chaos, mode: str) -> None:
    chaos.sandbox.limit(concurrentRuns=0)
    task = await chaos.start(mode=mode, seconds=60)
    await chaos.until_message(task, "concurrent-runs-limit-exceeded")
    await chaos.cancel(task)
    await chaos.expect_cancelled(task)
    assert chaos.books.starts == 0


@WAITING_MODES
async def test_while_the_run_is_in_progress(chaos: Chaos, mode: str) -> None:
    tasks = [
        await chaos.start(mode=mode, seconds=60),
        await chaos.start(mode=mode, seconds=60, session="cancelled-late"),
    ]
    for task in tasks:
        await chaos.until_message(task, "Slept")
        await chaos.cancel(task)
        await chaos.cancel(task)  # a second one changes nothing
    for task in tasks:
        ended = await chaos.ended(task)
        assert (ended["status"], ended["run"]["status"]) == ("cancelled", "ABORTED")
    chaos.expect_one_run_per_task(tasks=2)


@WAITING_MODES
async def test_while_the_run_is_not_readable_yet(chaos: Chaos, mode: str) -> None:
    chaos.sandbox.order_fault("late_runs", path="runs", seconds=4, detail=True)
    task = await chaos.start(mode=mode, seconds=60)
    await chaos.until(lambda: chaos.books.starts == 1)
    await chaos.cancel(task)
    await _expect_aborted(chaos, task)


@pytest.mark.parametrize(
    ("mode", "path"),
    [
        ("default", "/v2/datasets/[^/]+/items$"),
        pytest.param("apify", "/v2/datasets/[^/]+$", marks=pytest.mark.thorough),
    ],
)
async def test_while_the_rows_are_fetched(chaos: Chaos, mode: str, path: str) -> None:
    chaos.sandbox.order_fault("hang", path=path, method="GET")
    task = await chaos.start(mode=mode, seconds=1)
    await chaos.until(lambda: chaos.sandbox.faults[0]["hits"] >= 1)
    await chaos.cancel(task)
    await chaos.expect_cancelled(task)
    chaos.expect_one_run_per_task()


@WAITING_MODES
async def test_during_an_outage_the_task_is_cancelled_only_when_the_platform_says_so(chaos: Chaos, mode: str) -> None:
    task = await chaos.start(mode=mode, seconds=60)
    await chaos.until_message(task, "Slept")
    chaos.sandbox.order_fault("status", status=503, path="/v2/")
    await chaos.cancel(task)
    working = await chaos.until_message(task, "503")
    assert working["status"] == "working"
    chaos.sandbox.clear_faults()
    await _expect_aborted(chaos, task)


@pytest.mark.parametrize("mode", ["default", pytest.param("openai", marks=pytest.mark.thorough), DROP_IN])
async def test_right_after_the_worker_was_killed(chaos: Chaos, mode: str) -> None:
    task = await chaos.start(seconds=60, mode=mode)
    await chaos.until_message(task, "Slept")
    chaos.stack.worker.kill()
    cancelled = await chaos.cancel(task)
    assert cancelled.json()["status"] == ("completed" if mode == "openai" else "working")
    await chaos.stack.worker.ready()
    await _expect_aborted(chaos, task, status="completed" if mode == "openai" else "cancelled")


@WAITING_MODES
async def test_while_a_start_is_lost_with_its_worker(chaos: Chaos, mode: str) -> None:
    chaos.sandbox.order_fault("delay_after", path=START, method="POST", seconds=20, times=1)
    task = await chaos.start(mode=mode, seconds=60)
    await chaos.until(lambda: chaos.books.starts == 1)
    chaos.stack.worker.kill()
    await chaos.cancel(task)
    await chaos.stack.worker.ready()
    await _expect_aborted(chaos, task)


async def test_after_an_async_handler_has_returned_its_run_is_aborted(chaos: Chaos) -> None:
    task = await chaos.start(seconds=60, mode="openai")
    await chaos.until_message(task, "Slept")
    assert (await chaos.cancel(task)).status_code == 202
    await _expect_aborted(chaos, task, status="completed")


@pytest.mark.parametrize("mode", ["default", pytest.param("openai", marks=pytest.mark.thorough), DROP_IN])
async def test_a_finished_task_has_nothing_left_to_cancel(chaos: Chaos, mode: str) -> None:
    task = await chaos.start(seconds=0, mode=mode)
    await chaos.expect_right_answer(task)
    refused = await chaos.cancel(task)
    assert refused.status_code == 409
    assert refused.headers["Content-Type"] == "application/problem+json"
    await chaos.expect_right_answer(task)


async def _expect_aborted(chaos: Chaos, task_id: str, *, status: str = "cancelled") -> None:
    """The task ended after its one run was aborted."""
    task = await chaos.ended(task_id)
    assert task["status"] == status, task
    assert chaos.books.ended_as("ABORTED") == 1
    run = chaos.sandbox.run(chaos.books.run_ids()[0])
    assert run["status"] == "ABORTED"
    assert run["finishedAt"] <= task["finished_at"]
    chaos.expect_one_run_per_task()
