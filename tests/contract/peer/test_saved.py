"""Saved tasks and schedules beside the peer: both servers work on the same ones."""

import json
from typing import Any

import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.test_answers import beginning, called, unexplained
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
    published = await called(wires[1], "publish-actor-task", {"taskId": theirs})
    assert published["structuredContent"]["publishedAt"]
    hidden = await called(wires[1], "unpublish-actor-task", {"taskId": theirs})
    assert hidden["structuredContent"]["publishedAt"] is None
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
