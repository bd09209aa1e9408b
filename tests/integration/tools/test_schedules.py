"""Schedules in the default mode: made, changed, listed and removed; they run what they say."""

from typing import Any

import pytest

from tests.integration.tools.conftest import ToolCaller
from tests.support.eventually import eventually
from tests.support.stacks.sandbox import Sandbox

SLEEPER = "outlast/sleeper"
INPUT = {"seconds": 0, "rows": 1}
DAILY = {"cronExpression": "0 9 * * 1-5", "timezone": "Europe/Prague"}


async def test_a_schedule_is_made_found_changed_and_removed(call: ToolCaller, sandbox: Sandbox) -> None:
    task_id = sandbox.save_task(SLEEPER, input=INPUT, name="on-weekdays")
    actions: list[dict[str, Any]] = [
        {"actor": SLEEPER, "input": INPUT, "callOptions": {"memory": 256}, "restartOnError": True},
        {"actorTaskId": "on-weekdays"},
    ]
    made = await call("create-schedule", name="weekdays", title="Weekdays", actions=actions, **DAILY)
    schedule_id, actor_id = made.structured["scheduleId"], sandbox.actor_id(SLEEPER)
    assert made.structured["actions"] == [
        {"actorId": actor_id, "callOptions": {"memory": 256}, "restartOnError": True},
        {"actorTaskId": task_id},
    ]
    assert (made.structured["isEnabled"], made.structured["isExclusive"]) == (True, True)
    assert f"It runs Actor {actor_id}, saved task {task_id}." in made.text
    assert "It is due next at " in made.text
    for reference in (schedule_id, "weekdays"):
        found = await call("get-schedule", scheduleId=reference)
        assert [action.get("input") for action in found.structured["actions"]] == [INPUT, None]
    listed = await call("get-schedule-list", limit=1)
    assert listed.structured["schedules"][0]["scheduleId"] == schedule_id
    assert "input" not in listed.structured["schedules"][0]["actions"][0]

    off = await call("update-schedule", scheduleId=schedule_id, isEnabled=False, title="Never")
    assert "nextRunAt" not in off.structured
    assert (off.structured["title"], len(off.structured["actions"])) == ("Never", 2)
    assert "It is disabled" in off.text
    fewer = await call("update-schedule", scheduleId=schedule_id, actions=[{"actorTaskId": task_id}])
    assert fewer.structured["actions"] == [{"actorTaskId": task_id}]
    removed = await call("delete-schedule", scheduleId="weekdays")
    assert removed.structured == {"scheduleId": schedule_id, "name": "weekdays", "deleted": True}
    gone = await call("get-schedule", scheduleId=schedule_id)
    assert gone.error is not None
    assert gone.error["category"] == "not_found"


async def test_what_is_due_is_run_with_its_input(call: ToolCaller, sandbox: Sandbox) -> None:
    made = await call("create-schedule", cronExpression="@yearly", actions=[{"actor": SLEEPER, "input": INPUT}])
    schedule_id = made.structured["scheduleId"]
    sandbox.make_due(schedule_id)

    async def of_schedule() -> dict[str, Any] | None:
        runs = (await call("get-actor-run-list", actor=SLEEPER, limit=5)).structured["runs"]
        found = (run for run in runs if sandbox.run(run["runId"])["meta"].get("scheduleId") == schedule_id)
        return next(found, None)

    run = await eventually(of_schedule)
    record = await call("get-key-value-store-record", keyValueStoreId=run["keyValueStoreId"], recordKey="INPUT")
    assert record.structured["value"].items() >= INPUT.items()
    await call("delete-schedule", scheduleId=schedule_id)


@pytest.mark.parametrize(
    ("actions", "path", "says"),
    [
        ([{}], "/actions/0", "give actor or actorTaskId"),
        ([{"actor": SLEEPER}, {"actor": SLEEPER, "actorTaskId": "x"}], "/actions/1", "give actor or actorTaskId"),
        ([{"actorTaskId": "x", "callOptions": {"memory": 256}}], "/actions/0", "go with actor only"),
        ([{"actor": SLEEPER}] * 11, "/actions", "at most 10"),
    ],
)
async def test_actions_that_do_not_fit_are_told(
    call: ToolCaller, sandbox: Sandbox, actions: list[dict[str, Any]], path: str, says: str
) -> None:
    before = sandbox.saved_objects()
    refused = await call("create-schedule", actions=actions, **DAILY)
    assert refused.error is not None
    [violation] = refused.error["violations"]
    assert violation["path"] == path
    assert says in violation["message"]
    assert sandbox.saved_objects() == before


async def test_a_schedule_is_made_once_when_the_answer_is_lost(call: ToolCaller, sandbox: Sandbox) -> None:
    before = sandbox.saved_objects()
    sandbox.order_fault("drop_after", path="/schedules$", method="POST", times=1)
    try:
        made = await call("create-schedule", actions=[{"actor": SLEEPER, "input": INPUT}], **DAILY)
        hits = [fault["hits"] for fault in sandbox.faults]
    finally:
        sandbox.restore()
    assert hits == [1]
    assert sandbox.saved_objects() == before + 1
    assert (await call("get-schedule", scheduleId=made.structured["scheduleId"])).structured["actions"][0][
        "input"
    ] == INPUT
