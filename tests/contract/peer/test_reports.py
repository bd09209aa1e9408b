"""`report-problem`: what it answers, and which errors name it."""

import asyncio
from typing import Any

import pytest

from tests.contract.peer.conftest import Both
from tests.contract.peer.shapes import differences
from tests.contract.peer.test_answers import called, comparable
from tests.contract.peer.test_refusals import CALLS, REFUSALS, SLEEPER
from tests.contract.peer.test_tasks import ended_task
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.stacks.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
REPORT = "report-problem"
OFFERED = "?telemetry-enabled=true&tools=actors,runs,dev,outlast/sleeper"
NOT_OFFERED = "?telemetry-enabled=false&tools=actors,runs,dev,outlast/sleeper"
FAILING: dict[str, tuple[str, dict[str, Any]]] = {
    "an unknown Actor": ("call-actor", {"actor": "outlast/nothing-there", "input": {}}),
    "input that does not fit": ("call-actor", {"actor": SLEEPER, "input": {"seconds": "x"}}),
    "an unknown run": ("get-actor-run", {"runId": "nothingHere12345x"}),
    "to abort an unknown run": ("abort-actor-run", {"runId": "nothingHere12345x"}),
}


async def connected(both: Both, revision: str, query: str) -> tuple[Wire, Wire]:
    wires = both.wires(revision, query)
    if revision == LEGACY:
        for wire in wires:
            await wire.initialize()
    return wires


def names_reports(answer: dict[str, Any]) -> bool:
    """Whether the last text of an error does, and no other."""
    named = [REPORT in block["text"] for block in answer["content"]]
    assert answer["isError"]
    assert not any(named[:-1])
    return named[-1]


async def named_by_both(wires: tuple[Wire, Wire], tool: str, arguments: dict[str, Any]) -> list[bool]:
    return [
        names_reports(answer) for answer in await asyncio.gather(*(called(each, tool, arguments) for each in wires))
    ]


async def test_a_report_is_answered_as_the_peer_answers_it(both: Both) -> None:
    report = {"message": "The rows are empty.", "actorId": SLEEPER, "actorRunId": "abc", "relatedTools": ["call-actor"]}
    theirs, ours = [await called(wire, REPORT, report) for wire in both.wires(MODERN, OFFERED)]
    assert list(differences(comparable(theirs), comparable(ours))) == []
    assert theirs["structuredContent"] == ours["structuredContent"] == {"reported": True}


@pytest.mark.parametrize("revision", [pytest.param(LEGACY, marks=pytest.mark.thorough), MODERN])
async def test_errors_name_it_where_those_of_the_peer_do(both: Both, service: Service, revision: str) -> None:
    wires = await connected(both, revision, OFFERED)
    found = {label: await named_by_both(wires, *call) for label, call in FAILING.items()}
    for refusal, (status, kind, message) in REFUSALS.items():
        service.sandbox.order_fault("status", method="POST", path="/runs$", status=status, type=kind, message=message)
        try:
            for label, call in CALLS.items():
                found[f"{label}: {refusal}"] = await named_by_both(wires, *call)
        finally:
            service.sandbox.restore()
    assert {label: named for label, named in found.items() if named[0] != named[1]} == {}
    assert {True, False} == {named[0] for named in found.values()}
    without = await connected(both, revision, NOT_OFFERED)
    assert await named_by_both(without, *FAILING["an unknown run"]) == [False, False]


async def test_the_error_of_a_task_names_it_too(both: Both) -> None:
    wires = await connected(both, LEGACY, OFFERED)
    tool, arguments = FAILING["an unknown Actor"]
    for wire in wires:
        assert names_reports((await ended_task(wire, tool, arguments))[1])
