"""No memory, no free run slot, no time, no money: waited out as long as it makes sense, and then the run is stopped."""

import pytest

from tests.support.stacks.chaos_client import Chaos


@pytest.mark.parametrize(
    ("limit", "refusal"),
    [
        pytest.param({"memoryMbytes": 256}, "actor-memory-limit-exceeded", id="memory"),
        pytest.param(
            {"concurrentRuns": 1}, "concurrent-runs-limit-exceeded", id="concurrency", marks=pytest.mark.thorough
        ),
    ],
)
async def test_a_full_account_is_waited_for_and_the_task_says_so(
    chaos: Chaos, limit: dict[str, int], refusal: str
) -> None:
    chaos.sandbox.limit(**limit)
    first = await chaos.start(seconds=4, memory=256)
    await chaos.until(lambda: chaos.books.starts == 1)
    second = await chaos.start(seconds=1, memory=256)
    waiting = await chaos.until_message(second, refusal)
    assert waiting["status"] == "working"
    await chaos.expect_right_answer(first)
    await chaos.expect_right_answer(second)
    chaos.expect_one_run_per_task(tasks=2)
    # A refusal says that nothing was started: each attempt after it looks once, and does not wait for a late run.
    attempts = chaos.books.requests("POST", "/v2/actors/:id/runs")
    assert chaos.books.requests("GET", "/v2/actors/:id/runs") <= attempts


async def test_an_account_that_stays_full_fails_the_task_at_its_deadline(chaos: Chaos) -> None:
    chaos.sandbox.limit(concurrentRuns=0)
    task = await chaos.start(options={"deadline_seconds": 3})
    error = await chaos.expect_failure(task, category="capacity")
    assert "deadline" in error["message"]
    assert "concurrent-runs-limit-exceeded" in error["message"]
    assert chaos.books.starts == 0


@pytest.mark.parametrize("mode", ["default", pytest.param("openai", marks=pytest.mark.thorough)])
async def test_a_run_is_aborted_at_the_tasks_deadline(chaos: Chaos, mode: str) -> None:
    task = await chaos.start(seconds=60, mode=mode, options={"deadline_seconds": 4})
    ended = await chaos.ended(task)
    assert ended["run"]["status"] == "ABORTED"
    if mode == "default":
        error = await chaos.expect_failure(task, category="timeout")
        assert "deadline" in error["message"]
    assert chaos.books.ended_as("ABORTED") == 1
    chaos.expect_one_run_per_task()


@pytest.mark.parametrize("mode", ["default", pytest.param("openai", marks=pytest.mark.thorough)])
async def test_a_run_is_aborted_when_its_money_is_spent(chaos: Chaos, mode: str) -> None:
    task = await chaos.start(seconds=60, mode=mode, memory=1024, maxTotalChargeUsd="0.0002")
    ended = await chaos.ended(task)
    assert ended["run"]["status"] == "ABORTED"
    if mode == "default":
        error = await chaos.expect_failure(task, category="payment")
        assert "0.0002" in error["message"]
    assert chaos.books.ended_as("ABORTED") == 1
    chaos.expect_one_run_per_task()


async def test_a_run_is_stopped_when_its_own_time_is_over(chaos: Chaos) -> None:
    task = await chaos.start(seconds=60, options={"budget": {"max_run_seconds": 2}})
    ended = await chaos.ended(task)
    assert ended["run"]["status"] == "TIMED-OUT"
    await chaos.expect_failure(task, category="timeout")
    chaos.expect_one_run_per_task()


async def test_the_deadline_holds_through_the_death_of_the_worker(chaos: Chaos) -> None:
    task = await chaos.start(seconds=60, options={"deadline_seconds": 5})
    await chaos.until_message(task, "Slept")
    await chaos.stack.worker.restart()
    await chaos.expect_failure(task, category="timeout")
    chaos.expect_one_run_per_task()
