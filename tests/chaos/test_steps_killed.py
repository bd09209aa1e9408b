"""`kill -9` of the worker within a step of a tool's function: recorded steps are not repeated."""

from pathlib import Path

import pytest

from tests.support.calls.questions import asks, result, taken
from tests.support.eventually import eventually
from tests.support.stacks.chaos_client import Chaos


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
