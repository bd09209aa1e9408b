"""Saved tasks and schedules beside the peer: both servers work on the same ones."""

import json
from typing import Any

import pytest

from tests.contract.peer.calls import NO_ID
from tests.contract.peer.conftest import Both
from tests.contract.peer.differences import SAVED_ON_PURPOSE
from tests.contract.peer.test_answers import beginning, called, unexplained, unlike_errors
from tests.support.http.mcp_wire import LEGACY, Wire
from tests.support.stacks.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
SLEEPER = "outlast/sleeper"
QUERY = "?tools=tasks,schedules,actors"
TASK = {"input": {"seconds": 0, "rows": 2}, "title": "Two rows", "memoryMbytes": 256}
SCHEDULE = {
    "cronExpression": "0 9 * * 1-5",
    "timezone": "Europe/Prague",
    "isExclusive": True,
    "actions": [{"actorId": SLEEPER, "input": {"seconds": 0}, "memoryMbytes": 256}],
}


def refused_of(run: dict[str, Any]) -> dict[str, tuple[str, dict[str, Any]]]:
    """Calls that are refused; `run` is an action that would fit."""
    daily = {"cronExpression": "@daily"}
    return {
        "a name that is taken": ("create-actor-task", {"actorId": SLEEPER, "name": "taken"}),
        "a task of nothing": ("create-actor-task", {"actorId": "outlast/nothing-there", "name": "of-nothing"}),
        "a short name": ("create-actor-task", {"actorId": SLEEPER, "name": "x"}),
        "a name of many words": ("create-actor-task", {"actorId": SLEEPER, "name": "Not a name!"}),
        "another's name": ("update-actor-task", {"taskId": "not-published", "name": "taken"}),
        "no task to change": ("update-actor-task", {"taskId": NO_ID, "title": "x"}),
        "no page to publish": ("publish-actor-task", {"taskId": "not-published"}),
        "no task to publish": ("publish-actor-task", {"taskId": NO_ID}),
        "no task to hide": ("unpublish-actor-task", {"taskId": NO_ID}),
        "no time": ("create-schedule", {"cronExpression": "every day", "actions": [run]}),
        "no zone": ("create-schedule", {**daily, "timezone": "Mars/Olympus", "actions": [run]}),
        "both": ("create-schedule", {**daily, "actions": [run, {**run, "taskId": "taken"}]}),
        "neither": ("create-schedule", {**daily, "actions": [{"input": {}}]}),
        "no actions": ("create-schedule", {**daily, "actions": []}),
        "many actions": ("create-schedule", {**daily, "actions": [run] * 11}),
        "too many actions": ("create-schedule", {**daily, "actions": [run] * 21}),
        "no Actor": ("create-schedule", {**daily, "actions": [run, {"actorId": "outlast/nothing-there"}]}),
        "no task": ("create-schedule", {**daily, "actions": [{"taskId": NO_ID}]}),
        "a schedule's name": ("create-schedule", {**daily, "actions": [run], "name": "taken-too"}),
        "a bad change": ("update-schedule", {"scheduleId": "to-be-changed", "cronExpression": "never"}),
        "both in a change": ("update-schedule", {"scheduleId": "to-be-changed", "actions": [{**run, "taskId": "x"}]}),
        "no Actor in a change": ("update-schedule", {"scheduleId": "to-be-changed", "actions": [{"actorId": "a/b"}]}),
        "no schedule to change": ("update-schedule", {"scheduleId": NO_ID, "isEnabled": False}),
        "no schedule to delete": ("delete-schedule", {"scheduleId": NO_ID}),
    }


async def connected(both: Both) -> tuple[Wire, Wire]:
    wires = both.wires(LEGACY, QUERY)
    for wire in wires:
        await wire.initialize()
    return wires


async def compared(label: str, wires: tuple[Wire, Wire], name: str, *arguments: dict[str, Any]) -> list[dict[str, Any]]:
    """The structured answers of both, which have the same keys and types; each gets its own arguments, or the same."""
    given = arguments if len(arguments) == len(wires) else arguments * len(wires)
    answers = [await called(wire, name, each) for wire, each in zip(wires, given, strict=True)]
    assert unexplained(label, *answers) == [], json.dumps(answers)[:2_000]
    return [answer["structuredContent"] for answer in answers]


async def test_saved_tasks_are_those_of_the_peer(both: Both) -> None:
    wires = await connected(both)
    made = await compared(
        "a new task",
        wires,
        "create-actor-task",
        {"actorId": SLEEPER, "name": "made-by-the-peer", **TASK},
        {"actorId": SLEEPER, "name": "made-by-us", **TASK},
    )
    theirs, ours = (task["taskId"] for task in made)
    # Each reads and changes what the other one has made.
    for reference in (theirs, ours, "made-by-us", "made-by-the-peer"):
        read = await compared("a task", wires, "get-actor-task", {"taskId": reference})
        assert read[0] == read[1]
    changed = await compared(
        "a changed task",
        wires,
        "update-actor-task",
        {"taskId": ours, "title": "Changed", "publicConfig": {"seoTitle": "B"}},
        {"taskId": theirs, "title": "Changed", "publicConfig": {"seoTitle": "A"}},
    )
    assert [task["title"] for task in changed] == ["Changed"] * 2
    swapped = ({"taskId": ours}, {"taskId": theirs})
    published = await compared("a published task", wires, "publish-actor-task", *swapped)
    assert all(task["publishedAt"] for task in published)
    hidden = await compared("a task that is no longer published", wires, "unpublish-actor-task", *swapped)
    assert [task["publishedAt"] for task in hidden] == [None, None]
    unknown = [await called(wire, "get-actor-task", {"taskId": "nothingHere12345x"}) for wire in wires]
    assert beginning("an unknown task", unknown[0]) == beginning("an unknown task", unknown[1])


async def test_schedules_are_those_of_the_peer(both: Both) -> None:
    wires = await connected(both)
    made = await compared(
        "a new schedule",
        wires,
        "create-schedule",
        {"name": "of-the-peer", **SCHEDULE},
        {"name": "of-ours", **SCHEDULE},
    )
    theirs, ours = (schedule["scheduleId"] for schedule in made)
    for reference in (theirs, ours, "of-ours"):
        read = await compared("a schedule", wires, "get-schedule", {"scheduleId": reference})
        assert read[0] == read[1]
    off = await compared(
        "a schedule that is off",
        wires,
        "update-schedule",
        {"scheduleId": ours, "isEnabled": False},
        {"scheduleId": theirs, "isEnabled": False},
    )
    assert [schedule["nextRunAt"] for schedule in off] == [None, None]
    removed = await compared("no schedule", wires, "delete-schedule", {"scheduleId": ours}, {"scheduleId": theirs})
    assert [schedule["deleted"] for schedule in removed] == [True, True]
    unknown = [await called(wire, "get-schedule", {"scheduleId": ours}) for wire in wires]
    assert beginning("an unknown schedule", unknown[0]) == beginning("an unknown schedule", unknown[1])


async def test_what_cannot_be_saved_is_refused_alike(both: Both, service: Service) -> None:
    wires = await connected(both)
    run = {"actorId": SLEEPER}
    for name in ("taken", "not-published"):
        service.sandbox.save_task(SLEEPER, name=name)
    for name in ("taken-too", "to-be-changed"):
        await called(wires[1], "create-schedule", {"cronExpression": "@daily", "actions": [run], "name": name})
    before = service.sandbox.saved_objects()
    found: dict[str, list[str]] = {}
    for label, (tool, arguments) in refused_of(run).items():
        answers = [await called(wire, tool, arguments) for wire in wires]
        told = [beginning(label, answer) for answer in answers]
        found[label] = [] if told[0] == told[1] else [f"the peer says {told[0]}, ours {told[1]}"]
        found[label] += unlike_errors(*answers)
    for label in SAVED_ON_PURPOSE:
        assert found.pop(label), f"{label} is refused alike"
    assert {label: lines for label, lines in found.items() if lines} == {}
    assert service.sandbox.saved_objects() == before


async def test_options_beside_a_saved_task_say_nothing(both: Both, service: Service) -> None:
    wires = await connected(both)
    task = service.sandbox.save_task(SLEEPER)
    given = {"cronExpression": "@daily", "actions": [{"taskId": task, "build": "latest"}]}
    made = await compared("a new schedule", wires, "create-schedule", given)
    assert [schedule["actions"] for schedule in made] == [[{"taskId": task}]] * 2


async def test_what_is_saved_is_made_once_when_the_answer_is_lost(both: Both, service: Service) -> None:
    _, ours = await connected(both)
    service.sandbox.order_fault("drop_after", path=r"/(actor-tasks|schedules)", method="POST", times=2)
    service.sandbox.order_fault("drop_after", path=r"/schedules/", method="DELETE", times=1)
    try:
        task = await called(ours, "create-actor-task", {"actorId": SLEEPER, **TASK})
        schedule = await called(ours, "create-schedule", SCHEDULE)
        removed = await called(ours, "delete-schedule", {"scheduleId": schedule["structuredContent"]["scheduleId"]})
        hits = [fault["hits"] for fault in service.sandbox.faults]
    finally:
        service.sandbox.restore()
    assert hits == [2, 1]
    assert not task["isError"], task
    assert removed["structuredContent"]["deleted"]
    name = task["structuredContent"]["name"]
    taken = await called(ours, "create-actor-task", {"actorId": SLEEPER, "name": name})
    assert taken["isError"]
    assert "There is already a task of this name" in taken["content"][0]["text"]
