"""`kill -9` within a step of a tool's function, or a call that it makes: what is recorded is not repeated."""

from pathlib import Path

import pytest

from tests.support.calls.questions import asks, result, taken
from tests.support.eventually import eventually
from tests.support.stacks.chaos_client import Chaos, Json


def ran(folder: Path) -> list[str]:
    path = folder / "ran"
    return path.read_text().splitlines() if path.exists() else []


async def killed_in_the_charge(chaos: Chaos, folder: Path, *, once: bool) -> str:
    task_id = await chaos.start_call("held_order", folder=str(folder), once=once)
    await eventually(lambda: "charge" in ran(folder))
    chaos.stack.worker.kill()
    (folder / "go").touch()
    chaos.stack.worker.start()
    await chaos.stack.worker.ready()
    return task_id


async def test_only_the_unfinished_step_runs_again(chaos: Chaos, tmp_path: Path) -> None:
    task_id = await killed_in_the_charge(chaos, tmp_path, once=False)
    assert (await chaos.ended(task_id))["status"] == "completed"
    assert (await result(chaos.http, task_id))["structured"] == {"result": ["reserve", "charge"]}
    assert ran(tmp_path) == ["reserve", "charge", "charge"]


async def test_a_step_that_may_run_once_ends_in_an_unknown_outcome(chaos: Chaos, tmp_path: Path) -> None:
    task_id = await killed_in_the_charge(chaos, tmp_path, once=True)
    assert (await chaos.ended(task_id))["status"] == "failed"
    assert (await result(chaos.http, task_id))["error"]["category"] == "outcome_unknown"
    assert ran(tmp_path) == ["reserve", "charge"]


async def test_a_function_without_retries_ends_in_an_unknown_outcome(chaos: Chaos, tmp_path: Path) -> None:
    task_id = await chaos.start_call("pay_once", folder=str(tmp_path))
    await eventually(lambda: ran(tmp_path) == ["pay_once"])
    chaos.stack.worker.kill()
    (tmp_path / "go").touch()
    chaos.stack.worker.start()
    await chaos.stack.worker.ready()
    assert (await chaos.ended(task_id))["status"] == "failed"
    error = (await result(chaos.http, task_id))["error"]
    assert (error["category"], error["retryable"]) == ("outcome_unknown", False)
    assert ran(tmp_path) == ["pay_once"]


@pytest.mark.parametrize("part", ["worker", "temporal"])
async def test_waits_outlive_what_is_killed(chaos: Chaos, tmp_path: Path, part: str) -> None:
    task_id = await chaos.start_call("booking", folder=str(tmp_path))
    task = await asks(chaos.http, task_id)
    await getattr(chaos.stack, part).restart()
    await chaos.stack.bring_up()
    await taken(chaos.http, task, {"answer": "aisle"})
    await eventually(lambda: ran(tmp_path) == ["search"])
    approval = await asks(chaos.http, task_id)
    await getattr(chaos.stack, part).restart()
    await chaos.stack.bring_up()
    await taken(chaos.http, approval, {"decision": "yes"})
    assert (await chaos.ended(task_id))["status"] == "completed"
    assert ran(tmp_path) == ["search", "pay"]


async def test_a_called_function_runs_again_and_its_caller_does_not(chaos: Chaos, tmp_path: Path) -> None:
    task_id = await chaos.start_call("slow_order", folder=str(tmp_path))
    await eventually(lambda: "slow_pay" in ran(tmp_path))
    chaos.stack.worker.kill()
    (tmp_path / "go").touch()
    chaos.stack.worker.start()
    await chaos.stack.worker.ready()
    assert (await chaos.ended(task_id))["status"] == "completed"
    assert ran(tmp_path) == ["reserve", "slow_pay", "slow_pay"]
    assert len(await called_by(chaos, task_id)) == 1


@pytest.mark.parametrize("part", ["worker", "temporal"])
async def test_a_called_actor_runs_once_whatever_is_killed(chaos: Chaos, tmp_path: Path, part: str) -> None:
    task_id = await chaos.start_call("paid_order", folder=str(tmp_path), seconds=8)
    await chaos.until(lambda: chaos.books.starts >= 1)
    await getattr(chaos.stack, part).restart()
    await chaos.stack.bring_up()
    assert (await chaos.ended(task_id))["status"] == "completed"
    assert ran(tmp_path) == ["reserve", "ship"]
    chaos.expect_one_run_per_task(tasks=1)
    (inner,) = await called_by(chaos, task_id)
    assert inner["status"] == "completed"


async def called_by(chaos: Chaos, task_id: str) -> list[Json]:
    listed = (await chaos.http.get("/v1/tasks")).json()["tasks"]
    return [one for one in listed if one.get("called_by") == task_id]
