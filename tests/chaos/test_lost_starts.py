"""The answer to a start never arrives: the run that was started is adopted, and no second one is paid for."""

from typing import Any

import pytest

from tests.support.stacks.chaos_client import Chaos

START = "/v2/act(or)?s/[^/]+/runs$"
RUN_LIST = START
LOST_AFTER_ACCEPTANCE: list[dict[str, Any]] = [
    {"action": "drop_after"},
    {"action": "truncate"},
    {"action": "status_after", "status": 502},
    {"action": "status_after", "status": 500},
    {"action": "delay_after", "seconds": 20},  # longer than the client waits
]
NEVER_ARRIVED: list[dict[str, Any]] = [
    {"action": "drop_before"},
    {"action": "hang"},
    {"action": "status", "status": 503},
    {"action": "status", "status": 429},
]


@pytest.mark.parametrize(
    ("hides_user_agent", "late_seconds"),
    [
        pytest.param(False, 0, id="marked in lists, listed at once"),
        pytest.param(False, 2, id="marked in lists, listed late", marks=pytest.mark.thorough),
        pytest.param(True, 0, id="marked in details only, listed at once", marks=pytest.mark.thorough),
        pytest.param(True, 2, id="marked in details only, listed late"),
    ],
)
async def test_a_run_whose_start_was_not_answered_is_adopted(
    chaos: Chaos, hides_user_agent: bool, late_seconds: float
) -> None:
    if late_seconds:
        chaos.sandbox.order_fault("late_runs", path="runs", seconds=late_seconds)
    if hides_user_agent:
        chaos.sandbox.order_fault("hide_list_user_agent", path="runs")
    chaos.order_each_once(LOST_AFTER_ACCEPTANCE, path=START, method="POST")
    tasks = [await chaos.start(mode=mode) for mode in ("default", "openai") for _ in range(3)]
    adopted = [(await chaos.expect_right_answer(task))["run"]["run_id"] for task in tasks]
    assert chaos.faults_left() == 0
    assert sorted(adopted) == sorted(chaos.books.run_ids())
    chaos.expect_one_run_per_task(tasks=len(tasks))


async def test_a_start_that_never_arrived_is_repeated(chaos: Chaos) -> None:
    chaos.order_each_once(NEVER_ARRIVED, path=START, method="POST")
    tasks = [await chaos.start() for _ in range(4)]
    for task in tasks:
        await chaos.expect_right_answer(task)
    assert chaos.faults_left() == 0
    chaos.expect_one_run_per_task(tasks=len(tasks))


async def test_a_start_may_be_lost_before_and_after_and_the_search_fail_too(chaos: Chaos) -> None:
    chaos.order_each_once([{"action": "drop_before"}, {"action": "drop_after"}], path=START, method="POST")
    chaos.sandbox.order_fault("status", status=503, path=RUN_LIST, method="GET", after=2, times=1)
    chaos.sandbox.order_fault("truncate", path=RUN_LIST, method="GET", after=2, times=1)
    task = await chaos.start()
    await chaos.expect_right_answer(task)
    chaos.expect_one_run_per_task()


async def test_a_run_that_is_not_readable_yet_is_waited_for(chaos: Chaos) -> None:
    chaos.sandbox.order_fault("late_runs", path="runs", seconds=3, detail=True)
    tasks = [await chaos.start(mode=mode) for mode in ("default", "openai")]
    for task in tasks:
        await chaos.expect_right_answer(task)
    chaos.expect_one_run_per_task(tasks=2)


async def test_a_start_that_stays_unclear_until_the_deadline_leaves_no_run_running(chaos: Chaos) -> None:
    """Only the list could tell that the start was accepted, and it fails until the task's time is over."""
    chaos.sandbox.order_fault("drop_after", path=START, method="POST", times=1)
    chaos.sandbox.order_fault("status", status=503, path=RUN_LIST, method="GET", times=4)
    task = await chaos.start(seconds=60, options={"deadline_seconds": 4})
    await chaos.expect_failure(task, category="platform")
    assert chaos.books.ended_as("ABORTED") == 1
    chaos.expect_one_run_per_task()
