"""Tasks are workflows: readable in either revision, from any connection and any process, and by nobody else."""

import asyncio
import re
from typing import Any

import httpx
import pytest

from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.http.mcp_wire import KNOWS_TASKS, LEGACY, MODERN, Wire, WireError, text_of
from tests.support.processes.module_process import started_module
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service, settings_environment

FOREVER = {"actor": "outlast/sleeper", "input": {"seconds": 300}}


async def newer_task(wire: Wire, tool: str, **arguments: Any) -> dict[str, Any]:
    created = await wire.request("tools/call", {"name": tool, "arguments": arguments}, capabilities=KNOWS_TASKS)
    assert created["resultType"] == "task"
    return created


async def older_task(wire: Wire, tool: str, **arguments: Any) -> dict[str, Any]:
    return (await wire.request("tools/call", {"name": tool, "arguments": arguments, "task": {}}))["task"]


async def newer_state(wire: Wire, task_id: str) -> dict[str, Any]:
    return await wire.request("tasks/get", {"taskId": task_id}, capabilities=KNOWS_TASKS)


async def has_status(wire: Wire, task_id: str, status: str) -> dict[str, Any]:
    async def reached() -> dict[str, Any] | None:
        state = await newer_state(wire, task_id)
        return state if state["status"] == status else None

    return await eventually(reached)


async def cancelled(wire: Wire, task_id: str) -> None:
    await wire.request("tasks/cancel", {"taskId": task_id}, capabilities=KNOWS_TASKS)


async def test_a_task_of_one_revision_is_a_task_of_the_other(wire: Wire, older: Wire) -> None:
    made_new = await newer_task(wire, "slow_compute", seconds=0, label="new")
    made_old = await older_task(older, "slow_compute", seconds=0, label="old")
    collected = await older.request("tasks/result", {"taskId": made_new["taskId"]})
    assert text_of(collected).startswith("Computed new")
    assert collected["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": made_new["taskId"]}
    state = await has_status(wire, made_old["taskId"], "completed")
    assert text_of(state["result"]).startswith("Computed old")


async def test_another_process_serves_the_same_tasks(wire: Wire, service: Service, tmp_path: Any) -> None:
    made = await newer_task(wire, "slow_compute", seconds=0, label="shared")
    port = httpx.URL(service.api_url).port or 0
    environment = settings_environment(
        service.temporal_address,
        service.sandbox,
        OUTLAST_DATA_DIR=str(tmp_path),
        OUTLAST_API_PORT=str(port + 1),
        OUTLAST_TOOLS_FROM="tests.support.tools.conformance_tools",
    )
    url = f"http://127.0.0.1:{port + 1}"
    ready = f"{url}/healthz"
    with started_module("outlast.api", ready_url=ready, log=tmp_path / "api.log", environment=environment) as second:
        await asyncio.to_thread(second.await_answer)
        async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=180) as http:
            state = await has_status(Wire(http, MODERN), made["taskId"], "completed")
    assert text_of(state["result"]).startswith("Computed shared")


@pytest.mark.parametrize("method", ["tasks/get", "tasks/cancel", "tasks/update"])
async def test_a_foreign_task_is_as_unknown_as_none(wire: Wire, stranger: httpx.AsyncClient, method: str) -> None:
    made = await newer_task(wire, "slow_compute", seconds=0)
    theirs = Wire(stranger, MODERN)
    said = []
    for task_id in (made["taskId"], "no-such-task"):
        with pytest.raises(WireError) as refused:
            await theirs.request(method, {"taskId": task_id, "inputResponses": {}}, capabilities=KNOWS_TASKS)
        said.append((refused.value.code, str(refused.value).replace(task_id, "ID")))
    assert said[0] == said[1]
    assert said[0][0] == -32602


async def test_a_list_holds_the_callers_tasks_and_names_their_tools(
    older: Wire, http: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    made = await older_task(older, "slow_compute", seconds=0)

    async def listed() -> dict[str, Any] | None:
        page = await older.request("tasks/list", {})
        return page if made["taskId"] in [task["taskId"] for task in page["tasks"]] else None

    page = await eventually(listed)
    assert page["_meta"]["outlast/tools"][made["taskId"]] == "slow_compute"
    async with httpx.AsyncClient(
        base_url=http.base_url, trust_env=False, timeout=180, headers=bearer(sandbox.add_user("newcomer").token)
    ) as newcomer:
        theirs = Wire(newcomer, LEGACY)
        await theirs.initialize()
        assert (await theirs.request("tasks/list", {}))["tasks"] == []


async def test_cancelling_stops_the_run_and_an_ended_task_is_refused_in_the_older_revision_only(
    wire: Wire, older: Wire, sandbox: Sandbox
) -> None:
    made = await older_task(older, "call-actor", **FOREVER)
    run_id = await _run_of(older, made["taskId"])
    answer = await older.request("tasks/cancel", {"taskId": made["taskId"]})
    assert answer["status"] == "cancelled"
    await has_status(wire, made["taskId"], "cancelled")
    assert sandbox.run(run_id)["status"] == "ABORTED"
    with pytest.raises(WireError) as refused:
        await older.request("tasks/cancel", {"taskId": made["taskId"]})
    assert refused.value.code == -32602
    again = await wire.request("tasks/cancel", {"taskId": made["taskId"]}, capabilities=KNOWS_TASKS)
    assert again.keys() <= {"resultType", "_meta"}


async def _run_of(wire: Wire, task_id: str) -> str:
    """The run of a task, as `get-task` tells it."""

    async def started() -> str | None:
        params = {"name": "get-task", "arguments": {"taskId": task_id}}
        task = (await wire.request("tools/call", params))["structuredContent"]["task"]
        return task["run"]["run_id"] if task.get("run") else None

    return await eventually(started)


async def test_an_unlimited_time_to_live_becomes_a_limit_when_the_task_has_ended(wire: Wire) -> None:
    made = await newer_task(wire, "slow_compute", seconds=0.5)
    assert made["ttlMs"] is None
    ended = await has_status(wire, made["taskId"], "completed")
    assert ended["ttlMs"] > 3_600_000


async def test_a_result_blocks_and_asks_the_user_meanwhile(older: Wire) -> None:
    made = await older_task(older, "confirm_delete", filename="a.txt")
    asked = None
    async for message in older.messages("tasks/result", {"taskId": made["taskId"]}):
        if message.get("method") == "elicitation/create":
            asked = message["params"]
            await older.reply(message, {"action": "accept", "content": {"confirm": True}})
        if "result" in message:
            assert text_of(message["result"]) == "a.txt was deleted"
    assert asked is not None
    assert asked["message"] == "Delete a.txt?"
    assert asked["_meta"]["io.modelcontextprotocol/related-task"] == {"taskId": made["taskId"]}


async def test_the_session_that_started_a_task_hears_of_it(older: Wire) -> None:
    async with older.notifications() as said:
        arguments = {"actor": "outlast/sleeper", "input": {"seconds": 1}}
        params = {"name": "call-actor", "arguments": arguments, "task": {}, "_meta": {"progressToken": 7}}
        made = (await older.request("tools/call", params))["task"]
        statuses, steps = [], []
        while not statuses or statuses[-1]["status"] == "working":
            message = await asyncio.wait_for(said.get(), 30)
            if message["method"] == "notifications/tasks/status":
                statuses.append(message["params"])
            elif message["method"] == "notifications/progress":
                steps.append(message["params"])
    assert re.match(r"Run \w+ has started", steps[0]["message"])
    related = {"io.modelcontextprotocol/related-task": {"taskId": made["taskId"]}}
    assert {str((step["progressToken"], step["_meta"])) for step in steps} == {str((7, related))}
    assert {status["taskId"] for status in statuses} == {made["taskId"]}
    assert statuses[-1]["status"] == "completed"
    assert any("Slept" in status["statusMessage"] for status in statuses)


async def test_a_listener_hears_the_whole_task_until_it_ends(wire: Wire) -> None:
    made = await newer_task(wire, "confirm_delete", filename="b.txt")
    params = {"notifications": {"taskIds": [made["taskId"], "no-such-task"]}}
    statuses: list[str] = []
    async for message in wire.messages("subscriptions/listen", params, capabilities=KNOWS_TASKS):
        if message.get("method") == "notifications/subscriptions/acknowledged":
            assert message["params"]["notifications"]["taskIds"] == [made["taskId"]]
        if message.get("method") == "notifications/tasks":
            task = message["params"]
            if task["status"] == "input_required" and "input_required" not in statuses:
                responses = {key: {"action": "accept", "content": {"confirm": False}} for key in task["inputRequests"]}
                update = {"taskId": made["taskId"], "inputResponses": responses}
                await wire.request("tasks/update", update, capabilities=KNOWS_TASKS)
            statuses.append(task["status"])
    assert statuses[-1] == "completed"
    assert "input_required" in statuses


async def test_the_same_key_is_the_same_task(wire: Wire) -> None:
    call = {"name": "slow_compute", "arguments": {"seconds": 0}, "_meta": {"outlast/idempotency-key": "once"}}
    first = await wire.request("tools/call", call, capabilities=KNOWS_TASKS)
    again = await wire.request("tools/call", call, capabilities=KNOWS_TASKS)
    assert first["taskId"] == again["taskId"]
    other = {**call, "arguments": {"seconds": 1}}
    with pytest.raises(WireError, match="-32602"):
        await wire.request("tools/call", other, capabilities=KNOWS_TASKS)


async def test_a_client_that_has_not_said_so_gets_no_task_methods(wire: Wire) -> None:
    with pytest.raises(WireError) as refused:
        await wire.request("tasks/get", {"taskId": "any"})
    assert refused.value.code == -32021
    assert refused.value.data == {"requiredCapabilities": KNOWS_TASKS}
