"""Tasks of 2025-11-25 beside the peer: shapes, messages and errors; and tasks of 2026-07-28, which it does not have."""

import asyncio
import re
from typing import Any

import pytest

from tests.contract.peer.conftest import Both, both_of
from tests.contract.peer.differences import NO_TASK_ON_PURPOSE, TASK_METHODS_ON_PURPOSE, TASKS_ON_PURPOSE
from tests.contract.peer.shapes import beyond, differences, shape_of
from tests.contract.peer.test_answers import beginning, called, unexplained
from tests.contract.peer.test_refusals import CALLS, REFUSALS
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import KNOWS_TASKS, LEGACY, MODERN, Wire, WireError
from tests.support.stacks.service import Service

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]
QUERY = "?tools=actors,runs,outlast/sleeper"
LONG = {"actor": "outlast/sleeper", "input": {"seconds": 300, "steps": 300}}
FAILING = {"seconds": 0.5, "failWith": {"exitCode": 3, "message": "Out of luck"}}
SLOW = {"actor": "outlast/sleeper", "input": {"seconds": 4, "steps": 2}}
RELATED_TASK = "io.modelcontextprotocol/related-task"
UNKNOWN = {"actor": "outlast/nothing-there", "input": {}}
UNFIT = {"actor": "outlast/sleeper", "input": {"seconds": "x"}}
SHORT_PAGE = 10
STATUS_MESSAGE = re.compile(r"outlast/sleeper: [A-Z-]+( — .+)?")


async def connected(both: Both, revision: str = LEGACY, query: str = QUERY) -> tuple[Wire, Wire]:
    wires = both.wires(revision, query)
    if revision == LEGACY:
        for wire in wires:
            await wire.initialize()
    return wires


async def asked(wire: Wire, method: str, **params: Any) -> Any:
    """The result, or the error as it is told."""
    try:
        return await wire.request(method, params)
    except WireError as error:
        return str(error)


async def as_task(wire: Wire, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    """The new task."""
    params = {"name": tool, "arguments": arguments, "task": {"ttl": 60_000}}
    return (await wire.request("tools/call", params))["task"]


async def in_status(wire: Wire, task_id: str, status: str, message: str) -> dict[str, Any]:
    """The task once it has this status and says that."""

    async def reached() -> dict[str, Any]:
        task = await wire.request("tasks/get", {"taskId": task_id})
        assert task["status"] == status, task
        assert re.fullmatch(message, task.get("statusMessage", "")), task
        return task

    return await eventually(reached)


def unlike(label: str, theirs: Any, ours: Any) -> list[str]:
    """How two tasks differ in keys and types, or two errors in their words; ids are each server's own."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        found = list(differences(shape_of(theirs), shape_of(ours)))
    else:
        words = [re.sub(r'"[\w-]{8,}"', '"ID"', str(answer)) for answer in (theirs, ours)]
        found = [] if words[0] == words[1] else [f"/: the peer says {words[0]}, ours {words[1]}"]
    return beyond(found, [place for each, place in TASKS_ON_PURPOSE if each == label])


@pytest.mark.parametrize("ui", ["", "&ui=apps"], ids=["plain", "with widgets"])
async def test_a_tasks_life_is_told_as_the_peer_tells_it(both: Both, ui: str) -> None:
    told: list[dict[str, Any]] = []
    for wire in await connected(both, query=f"{QUERY}{ui}"):
        said: dict[str, Any] = {}
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            said[f"unknown: {method}"] = await asked(wire, method, taskId="nothing-here")
        task = said["a new task"] = await as_task(wire, "call-actor", LONG)
        said["a working task"] = await in_status(wire, task["taskId"], "working", STATUS_MESSAGE.pattern)
        said["a cancelled task"] = await asked(wire, "tasks/cancel", taskId=task["taskId"])
        said["looked at"] = await asked(wire, "tasks/get", taskId=task["taskId"])
        said["cancelled again"] = await asked(wire, "tasks/cancel", taskId=task["taskId"])
        for key in ("a cancelled task", "looked at"):
            assert (said[key]["status"], said[key]["statusMessage"]) == ("cancelled", "Cancelled by client")
        ended = await as_task(wire, "outlast--sleeper", {"seconds": 0.1})
        message = r"outlast/sleeper: SUCCEEDED( — .+)?"
        said["a completed task"] = await in_status(wire, ended["taskId"], "completed", message)
        said["cancelled too late"] = await asked(wire, "tasks/cancel", taskId=ended["taskId"])
        said["its result"] = await wire.request("tasks/result", {"taskId": ended["taskId"]})
        failed = await as_task(wire, "outlast--sleeper", FAILING)
        message = r"outlast/sleeper: FAILED( — .+)?"
        said["a failed run"] = await in_status(wire, failed["taskId"], "completed", message)
        told.append(said)
    assert told[0].keys() == told[1].keys()
    results = [said.pop("its result") for said in told]
    found = {label: unlike(label, told[0][label], told[1][label]) for label in told[0]}
    assert {label: lines for label, lines in found.items() if lines} == {}
    assert unexplained("its result", *results) == []


async def test_a_session_hears_of_its_task_what_the_peers_hears(both: Both) -> None:
    """Its status at each change, and its progress, which names the run while it goes on: beside all requests."""
    heard: list[tuple[list[dict[str, Any]], list[dict[str, Any]]]] = []
    for wire in await connected(both):
        async with wire.notifications() as said:
            params = {"name": "call-actor", "arguments": SLOW, "task": {}, "_meta": {"progressToken": "of the task"}}
            task_id = (await wire.request("tools/call", params))["task"]["taskId"]
            statuses, steps = list[dict[str, Any]](), list[dict[str, Any]]()
            while not statuses or statuses[-1]["status"] == "working":
                message = await asyncio.wait_for(said.get(), 60)
                if message["method"] == "notifications/tasks/status":
                    statuses.append(message["params"])
                elif message["method"] == "notifications/progress":
                    assert not statuses or statuses[-1]["status"] == "working"
                    steps.append(message["params"])
        assert {status["taskId"] for status in statuses} == {task_id}
        assert [step["progress"] for step in steps] == [1 + number for number in range(len(steps))]
        assert {step["progressToken"] for step in steps} == {"of the task"}
        assert {step["_meta"][RELATED_TASK]["taskId"] for step in steps} == {task_id}
        assert len({step["_meta"]["com.apify/ActorRun"]["runId"] for step in steps}) == 1
        assert all(STATUS_MESSAGE.fullmatch(step["message"]) for step in steps), steps
        assert any("RUNNING" in step["message"] for step in steps), steps
        heard.append((statuses, steps))
    (their_statuses, their_steps), (statuses, steps) = heard
    assert statuses[-1]["status"] == their_statuses[-1]["status"] == "completed"
    assert statuses[-1]["statusMessage"].startswith(their_statuses[-1]["statusMessage"])
    assert steps[-1]["message"] == their_steps[-1]["message"] == "outlast/sleeper: SUCCEEDED"
    assert list(differences(shape_of(their_steps[-1]), shape_of(steps[-1]))) == []
    assert unlike("unlimited", their_statuses[-1], statuses[-1]) == []


async def test_tasks_that_fail_have_the_status_that_the_peer_gives_them(both: Both, service: Service) -> None:
    """What a tool tells in its own words is an answer like any other; what is thrown has failed."""
    wires = await connected(both)
    found: dict[str, list[str]] = {}
    for refusal, (status, kind, message) in REFUSALS.items():
        service.sandbox.order_fault("status", method="POST", path="/runs$", status=status, type=kind, message=message)
        try:
            for call, (tool, arguments) in CALLS.items():
                ended = await asyncio.gather(*(ended_task(wire, tool, arguments) for wire in wires))
                found[f"{call}: {refusal}"] = unlike_ends(*ended)
        finally:
            service.sandbox.restore()
    found["an unknown Actor"] = unlike_ends(*[await ended_task(wire, "call-actor", UNKNOWN) for wire in wires])
    assert {label: lines for label, lines in found.items() if lines} == {}
    params = {"name": "call-actor", "arguments": UNFIT, "task": {}}
    theirs, ours = [await asked(wire, "tools/call", **params) for wire in wires]
    assert theirs["task"]["status"] == "working", NO_TASK_ON_PURPOSE
    assert ours.startswith('-32602: MCP error -32602: Invalid arguments for tool "call-actor".'), NO_TASK_ON_PURPOSE


async def ended_task(wire: Wire, tool: str, arguments: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The task once it has ended, and its result."""
    task_id = (await as_task(wire, tool, arguments))["taskId"]

    async def ended() -> dict[str, Any]:
        task = await wire.request("tasks/get", {"taskId": task_id})
        assert task["status"] != "working"
        return task

    return await eventually(ended), await wire.request("tasks/result", {"taskId": task_id})


def unlike_ends(
    theirs: tuple[dict[str, Any], dict[str, Any]], ours: tuple[dict[str, Any], dict[str, Any]]
) -> list[str]:
    (task, result), (own_task, own_result) = theirs, ours
    told = [beginning("", each) for each in (result, own_result)]
    return [
        *unlike("a refused task", task, own_task),
        *([] if task["status"] == own_task["status"] else [f"{task['status']}, ours {own_task['status']}"]),
        *([] if told[0] == told[1] else [f"the peer says {told[0]}, ours {told[1]}"]),
    ]


async def test_a_cancelled_task_stays_cancelled_while_its_run_is_aborted(both: Both, service: Service) -> None:
    """The platform is slow to abort: the client sees nothing of it, and the run ends all the same."""
    wires = await connected(both)
    task_id = ""
    for wire in wires:
        others = set(service.sandbox.counters["runningNow"])
        task_id = (await as_task(wire, "call-actor", LONG))["taskId"]
        await in_status(wire, task_id, "working", STATUS_MESSAGE.pattern)
        (run_id,) = set(service.sandbox.counters["runningNow"]) - others
        service.sandbox.order_fault("status", method="POST", path="/abort$", status=503, times=2)
        try:
            seen = [await wire.request("tasks/cancel", {"taskId": task_id})]
            while service.sandbox.run(run_id)["status"] != "ABORTED":
                seen.append(await wire.request("tasks/get", {"taskId": task_id}))
            assert service.sandbox.faults[0]["hits"] == 2
        finally:
            service.sandbox.restore()
        assert {task["status"] for task in seen} == {"cancelled"}
    newest = (await wires[1].request("tasks/list"))["tasks"][0]
    assert newest["taskId"] == task_id or newest["status"] in ("working", "input_required")


async def own_in_list(wire: Wire, made: list[str]) -> list[int]:
    """The numbers of these tasks in the order of the list, which may have those of others."""
    found, cursor = list[str](), {}
    while cursor is not None:
        page = await wire.request("tasks/list", cursor)
        found += [task["taskId"] for task in page["tasks"] if task["taskId"] in made]
        cursor = {"cursor": page["nextCursor"]} if "nextCursor" in page else None
    return [made.index(task_id) for task_id in found]


async def told_by_methods(wire: Wire, stranger: Wire, *, waits: bool) -> dict[str, Any]:
    """What a server says of four tasks, two of which have ended, to who made them and to a stranger.

    There are some more, so that a short page does not have all. `waits` is whether it answers `tasks/result` when the
    task has ended, or at once.
    """
    await asyncio.gather(*(as_task(wire, "outlast--sleeper", {"seconds": 0}) for _ in range(8)))
    made: list[str] = []
    for arguments in ({"seconds": 0}, {"seconds": 0}, {"seconds": 300}, {"seconds": 300}):
        made.append((await as_task(wire, "outlast--sleeper", arguments))["taskId"])
        if arguments["seconds"] == 0:
            await in_status(wire, made[-1], "completed", ".*")

    async def order() -> list[int]:
        found = await own_in_list(wire, made)
        assert len(found) == len(made)
        return found

    async def first_page() -> list[Any]:
        page = await wire.request("tasks/list")
        assert "nextCursor" in page or len(page["tasks"]) > SHORT_PAGE
        return page["tasks"]

    said: dict[str, Any] = {"the order": await eventually(order)}
    said["a page"] = len(await eventually(first_page)) > SHORT_PAGE
    said["tasks of others"] = sorted(await own_in_list(stranger, made))
    said["a bad cursor"] = await asked(wire, "tasks/list", cursor="x")
    result = asyncio.ensure_future(asked(wire, "tasks/result", taskId=made[2]))
    if not waits:
        await result
    for task_id in made[2:]:
        await wire.request("tasks/cancel", {"taskId": task_id})
    said["the result of a working task"] = await result
    said["the result of a cancelled task"] = await asked(wire, "tasks/result", taskId=made[3])
    return said


async def test_lists_and_results_of_tasks_are_told_as_the_list_of_differences_says(
    service: Service, peer_url: str
) -> None:
    user = service.sandbox.add_user("has-few-tasks")
    async with (
        both_of(service, peer_url, user.token) as both,
        both_of(service, peer_url, service.sandbox.token) as others,
    ):
        wires, strangers = await connected(both), await connected(others)
        theirs = await told_by_methods(wires[0], strangers[0], waits=False)
        ours = await told_by_methods(wires[1], strangers[1], waits=True)
    assert (ours["the order"], theirs["the order"]) == ([3, 2, 1, 0], [0, 1, 2, 3])
    assert (ours["tasks of others"], theirs["tasks of others"]) == ([], [0, 1, 2, 3])
    assert (ours["a page"], theirs["a page"]) == (True, False)
    assert [said["a bad cursor"].partition(":")[0] for said in (theirs, ours)] == ["-32603", "-32602"]
    for state in ("working", "cancelled"):
        label = f"the result of a {state} task"
        assert theirs[label].endswith(f"is not completed yet. Current status: {state}")
        assert ours[label]["content"][0]["text"].endswith("was cancelled.")
    assert {label for label in theirs if theirs[label] != ours[label]} == TASK_METHODS_ON_PURPOSE.keys()


async def cancelled_call(wire: Wire, tool: str, arguments: dict[str, Any], number: int) -> str:
    """Cancel a call as soon as it has told of its run; the run's id."""
    params = {"name": tool, "arguments": arguments, "_meta": {"progressToken": number}}
    messages = wire.messages("tools/call", params, request_id=number)
    first = await anext(messages)
    await wire.notify("notifications/cancelled", {"requestId": number, "reason": "enough"})
    await messages.aclose()
    return first["params"]["_meta"]["com.apify/ActorRun"]["runId"]


async def test_a_call_whose_request_is_cancelled_stops_its_run(both: Both, service: Service) -> None:
    """And whoever gives up waiting for a run stops nothing."""
    for wire in await connected(both):
        for number, (tool, given) in enumerate({"call-actor": LONG, "outlast--sleeper": LONG["input"]}.items()):
            run_id = await cancelled_call(wire, tool, given, 4711 + number)
            await eventually(lambda run_id=run_id: service.sandbox.run(run_id)["status"] == "ABORTED")
        begun = (await called(wire, "call-actor", {**LONG, "waitSecs": 0}))["structuredContent"]["runId"]
        assert await cancelled_call(wire, "get-actor-run", {"runId": begun, "waitSecs": 45}, 4720) == begun
        seen = await called(wire, "get-actor-run", {"runId": begun, "waitSecs": 1})
        assert seen["structuredContent"]["status"] == "RUNNING"
        await called(wire, "abort-actor-run", {"runId": begun})


async def test_the_newer_version_has_tasks_as_its_extension_says(both: Both, service: Service) -> None:
    """A client that declares them gets the task at once; the peer ignores them."""
    _, ours = await connected(both, MODERN)
    call = {"name": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 0.1}}}
    made = await ours.request("tools/call", call, capabilities=KNOWS_TASKS)
    assert (made["resultType"], made["status"]) == ("task", "working")

    async def completed() -> dict[str, Any]:
        task = await ours.request("tasks/get", {"taskId": made["taskId"]}, capabilities=KNOWS_TASKS)
        assert task["status"] == "completed", task
        return task

    task = await eventually(completed)
    plain = await called(ours, call["name"], call["arguments"])
    assert list(differences(shape_of(plain["structuredContent"]), shape_of(task["result"]["structuredContent"]))) == []
    assert re.fullmatch(r"outlast/sleeper: SUCCEEDED( — .+)?", task["statusMessage"])
    others = set(service.sandbox.counters["runningNow"])
    long = await ours.request("tools/call", {"name": "call-actor", "arguments": LONG}, capabilities=KNOWS_TASKS)
    await eventually(lambda: set(service.sandbox.counters["runningNow"]) - others)
    await ours.request("tasks/cancel", {"taskId": long["taskId"]}, capabilities=KNOWS_TASKS)
    await eventually(lambda: not set(service.sandbox.counters["runningNow"]) - others)
    with pytest.raises(WireError, match='Task "nothing-here" not found'):
        await ours.request("tasks/get", {"taskId": "nothing-here"}, capabilities=KNOWS_TASKS)
