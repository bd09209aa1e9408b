"""The platform refuses, hangs, resets and truncates, on every kind of request: the answer is right all the same."""

from typing import Any

import pytest

from tests.support.stacks.chaos_client import Chaos

FAULTS: list[dict[str, Any]] = [
    {"action": "status", "status": 429},
    {"action": "status", "status": 500},
    {"action": "status", "status": 503},
    {"action": "hang"},
    {"action": "drop_before"},
    {"action": "drop_after"},
    {"action": "truncate"},
]


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", "/v2/act(or)?s/[^/]+/runs$"), ("GET", "/v2/actor-runs/[^/]+$"), ("GET", "/v2/datasets/[^/]+/items$")],
    ids=["start", "poll", "dataset"],
)
async def test_every_kind_of_fault_is_waited_out(chaos: Chaos, method: str, path: str) -> None:
    chaos.order_each_once(FAULTS, path=path, method=method)
    tasks = [await chaos.start(seconds=2) for _ in FAULTS]
    for task in tasks:
        await chaos.expect_right_answer(task)
    assert chaos.faults_left() == 0
    chaos.expect_one_run_per_task(tasks=len(tasks))


async def test_an_abort_is_repeated_until_the_platform_has_taken_it(chaos: Chaos) -> None:
    chaos.order_each_once(FAULTS, path="/abort$", method="POST")
    tasks = [await chaos.start(seconds=60) for _ in FAULTS]
    for task in tasks:
        await chaos.until_message(task, "Slept")
        await chaos.cancel(task)
    for task in tasks:
        ended = await chaos.ended(task)
        assert ended["status"] == "cancelled"
        assert ended["run"]["status"] == "ABORTED"
    assert chaos.faults_left() == 0
    chaos.expect_one_run_per_task(tasks=len(tasks))


async def test_a_whole_outage_is_waited_out(chaos: Chaos) -> None:
    tasks = [await chaos.start(seconds=2, mode=mode) for mode in ("default", "openai")]
    await chaos.until(lambda: chaos.books.starts == 2)
    chaos.sandbox.order_fault("status", status=503, path="/v2/")
    tasks += [await chaos.start(seconds=1, mode=mode) for mode in ("default", "openai")]
    for task in tasks[2:]:
        await chaos.until_message(task, "503")
    chaos.sandbox.clear_faults()
    for task in tasks:
        await chaos.expect_right_answer(task)
    chaos.expect_one_run_per_task(tasks=len(tasks))


async def test_a_definite_refusal_fails_at_once_and_starts_nothing(chaos: Chaos) -> None:
    chaos.sandbox.order_fault("status", status=403, type="insufficient-permissions", path="/runs$", method="POST")
    error = await chaos.expect_failure(await chaos.start(), category="permission")
    assert error["attempt"] == 1
    assert chaos.books.starts == 0
    assert chaos.books.requests("GET", "/v2/actors/:id/runs") == 0
