"""Plain calls, as clients make them that know no tasks. The SDK's own client, in both protocol versions."""

import asyncio
import json
import sys
from contextlib import aclosing
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, MCPError, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp_types import INVALID_PARAMS, ElicitRequestFormParams, ElicitResult, TextContent

from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError, text_of
from tests.support.paths import ROOT
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service, settings_environment

REVISIONS = pytest.mark.parametrize("revision", ["legacy", MODERN])
SLEEPER = {"actor": "outlast/sleeper", "input": {"seconds": 0.2, "steps": 2}}
FOREVER = {"actor": "outlast/sleeper", "input": {"seconds": 300}}


def client(service: Service, revision: str, query: str = "", **options: Any) -> Client:
    return Client(f"{service.api_url}/mcp{query}", mode=revision, **options)


def said(result: Any) -> str:
    return "\n".join(block.text for block in result.content if isinstance(block, TextContent))


@REVISIONS
async def test_a_call_waits_for_its_run_and_tells_of_it_early(service: Service, revision: str) -> None:
    told: list[str | None] = []

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        told.append(message)

    async with client(service, revision) as mcp:
        await mcp.list_tools()
        result = await mcp.call_tool("call-actor", SLEEPER, progress_callback=heard)
    assert not result.is_error
    assert result.structured_content is not None
    run_id = result.structured_content["runId"]
    assert result.structured_content["status"] == "SUCCEEDED"
    # A busy machine may say first that the call waits for a worker.
    assert next(message for message in told if message != "Waiting for a worker.") == f"Run {run_id} has started"


@REVISIONS
async def test_an_unknown_tool_is_refused_and_bad_arguments_are_explained(service: Service, revision: str) -> None:
    async with client(service, revision) as mcp:
        with pytest.raises(MCPError) as unknown:
            await mcp.call_tool("call-actr", {})
        assert unknown.value.error.code == -32602
        assert "call-actor" in unknown.value.error.data["hint"]
        bad = await mcp.call_tool("call-actor", {"input": {"seconds": -1}, "memory": 1})
    assert bad.is_error
    assert "/actor" in said(bad)
    assert "/memory" in said(bad)


@REVISIONS
async def test_patience_that_is_over_leaves_a_task_that_tools_look_after(service: Service, revision: str) -> None:
    async with client(service, revision) as mcp:
        await mcp.list_tools()
        left = await mcp.call_tool("call-actor", {**FOREVER, "waitSecs": 0})
        assert not left.is_error
        assert left.meta is not None
        task_id = left.meta["outlast/taskId"]
        assert task_id in said(left)
        assert "get-task" in said(left)
        listed = await mcp.call_tool("list-tasks", {"status": "working", "tool": "call-actor", "limit": 100})
        assert "call-actor" in said(listed)
        await mcp.call_tool("cancel-task", {"taskId": task_id})
        ended = await mcp.call_tool("get-task", {"taskId": task_id, "waitSecs": 30})
    assert "cancelled" in said(ended).lower()


@REVISIONS
async def test_a_wait_that_is_no_number_of_seconds_is_refused(service: Service, revision: str) -> None:
    async with client(service, revision) as mcp:
        with pytest.raises(MCPError, match="waitSecs takes a number of seconds from 0 to") as refused:
            await mcp.call_tool("call-actor", {**FOREVER, "waitSecs": -1})
    assert refused.value.error.code == INVALID_PARAMS


@REVISIONS
async def test_a_client_that_cannot_be_asked_answers_with_a_tool(service: Service, revision: str) -> None:
    async with client(service, revision) as mcp:
        left = await mcp.call_tool("confirm_delete", {"filename": "c.txt"})
        assert "Delete c.txt?" in said(left)
        assert left.meta is not None
        answer = {"taskId": left.meta["outlast/taskId"], "key": "confirm", "content": {"confirm": True}}
        await mcp.call_tool("answer-task", answer)
        done = await mcp.call_tool("get-task", {"taskId": answer["taskId"], "waitSecs": 30})
    assert said(done) == "c.txt was deleted"


@REVISIONS
async def test_a_client_that_can_be_asked_is_asked(service: Service, revision: str) -> None:
    async def answer(_ctx: Any, params: Any) -> ElicitResult:
        assert isinstance(params, ElicitRequestFormParams)
        key = next(iter(params.requested_schema["properties"]))
        return ElicitResult(action="accept", content={key: {"name": "Ann", "color": "blue"}[key]})

    async with client(service, revision, elicitation_callback=answer) as mcp:
        done = await mcp.call_tool("test_input_required_result_multi_round", {})
    assert said(done) == "Ann likes blue"


@REVISIONS
async def test_the_list_says_how_to_wait_unless_an_actor_has_that_field_itself(service: Service, revision: str) -> None:
    async with client(service, revision) as mcp:
        tools = {tool.name: tool for tool in (await mcp.list_tools()).tools}
    asynchronous = client(service, revision, "?ui=openai")
    async with asynchronous as mcp:
        started = {tool.name: tool for tool in (await mcp.list_tools()).tools}
    assert tools["call-actor"].input_schema["properties"]["waitSecs"]["default"] == 45
    assert "waitSecs" in tools["outlast--sleeper"].input_schema["properties"]
    assert "waitSecs" in tools["slow_compute"].input_schema["properties"]
    assert "waitSecs" not in tools["greet"].input_schema["properties"]
    assert "waitSecs" not in started["call-actor"].input_schema["properties"]


async def test_an_added_actor_changes_the_list_of_this_connection_only(http: httpx.AsyncClient) -> None:
    mine, other = Wire(http, LEGACY), Wire(http, LEGACY)
    await mine.initialize()
    await other.initialize()
    async with mine.notifications() as heard, other.notifications() as overheard:
        await mine.request("tools/call", {"name": "add-actor", "arguments": {"actor": "outlast/big-table"}})
        changed = await asyncio.wait_for(heard.get(), 30)
        assert changed["method"] == "notifications/tools/list_changed"
        assert "outlast--big-table" in await names(mine)
        assert "outlast--big-table" not in await names(other)
        assert overheard.empty()


async def test_the_newer_revision_hears_of_an_added_actor_where_it_listens(http: httpx.AsyncClient) -> None:
    wire, elsewhere = Wire(http, MODERN, "?tools=experimental"), Wire(http, MODERN, "?tools=experimental,docs")
    listen = {"notifications": {"toolsListChanged": True}}
    heard: list[str] = []
    async with aclosing(wire.messages("subscriptions/listen", listen)) as messages:
        async for message in messages:
            heard.append(message["method"])
            if message["method"] == "notifications/subscriptions/acknowledged":
                call = {"name": "add-actor", "arguments": {"actor": "outlast/big-table"}}
                await elsewhere.request("tools/call", call)
                await wire.request("tools/call", call)
            else:
                break
    assert heard[1:] == ["notifications/tools/list_changed"]
    assert "outlast--big-table" in await names(wire)


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_an_actor_that_does_not_exist_is_not_added(http: httpx.AsyncClient, revision: str) -> None:
    wire = Wire(http, revision, "?tools=experimental")
    if revision == LEGACY:
        await wire.initialize()
    before = await names(wire)
    answer = await wire.request("tools/call", {"name": "add-actor", "arguments": {"actor": "outlast/nothing"}})
    assert (answer["isError"], answer["_meta"]["outlast/error"]["category"]) == (True, "not_found")
    assert "outlast/nothing" in text_of(answer)
    assert "is now offered" not in text_of(answer)
    assert await names(wire) == before


async def test_an_actor_is_added_by_its_full_name_wherever_an_id_is_given(
    http: httpx.AsyncClient, sandbox: Sandbox
) -> None:
    wire = Wire(http, MODERN, "?tools=experimental,storage")
    call = {"name": "add-actor", "arguments": {"actor": sandbox.actor_id("outlast/big-table")}}
    assert "as the tool outlast--big-table." in text_of(await wire.request("tools/call", call))
    assert "outlast--big-table" in await names(wire)


async def test_without_a_connection_there_is_nothing_to_add_to(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/tools/add-actor/call", json={"arguments": {"actor": "outlast/big-table"}})
    assert answer.status_code == 422
    assert "this call does not come from one" in answer.json()["error"]["message"]


async def names(wire: Wire) -> list[str]:
    return [tool["name"] for tool in (await wire.request("tools/list"))["tools"]]


async def test_a_cancelled_request_stops_its_run(older: Wire, sandbox: Sandbox) -> None:
    call = {"name": "call-actor", "arguments": FOREVER, "_meta": {"progressToken": "p"}}
    run_id = ""
    async for message in older.messages("tools/call", call, request_id=777_001):
        if message.get("method") == "notifications/progress" and message["params"]["message"].startswith("Run "):
            run_id = message["params"]["message"].split()[1]
            await older.notify("notifications/cancelled", {"requestId": 777_001})
    await eventually(lambda: sandbox.run(run_id)["status"] == "ABORTED")


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_a_client_that_leaves_cancels_nothing(http: httpx.AsyncClient, revision: str) -> None:
    wire = Wire(http, revision)
    if revision == LEGACY:
        await wire.initialize()
    call = {"name": "call-actor", "arguments": SLEEPER, "_meta": {"progressToken": "p", "outlast/session-id": revision}}
    async with aclosing(wire.messages("tools/call", call)) as messages:
        async for message in messages:
            if message.get("method") == "notifications/progress":
                break

    async def completed() -> bool:
        listed = await http.get("/v1/tasks", params={"session_id": revision})
        return "completed" in [task["status"] for task in listed.json()["tasks"]]

    await eventually(completed)


async def test_another_callers_state_answers_nothing(wire: Wire, stranger: httpx.AsyncClient) -> None:
    call: dict[str, Any] = {"name": "test_input_required_result_elicitation", "arguments": {}}
    can = {"elicitation": {}}
    asked = await wire.request("tools/call", call, capabilities=can)
    answer = {"user_name": {"action": "accept", "content": {"name": "Mallory"}}}
    retry = {**call, "inputResponses": answer, "requestState": asked["requestState"]}
    with pytest.raises(WireError, match="-32602"):
        await Wire(stranger, MODERN).request("tools/call", retry, capabilities=can)
    with pytest.raises(WireError, match="-32602"):
        other_tool = {**retry, "name": "test_input_required_result_request_state"}
        await wire.request("tools/call", other_tool, capabilities=can)
    assert text_of(await wire.request("tools/call", retry, capabilities=can)) == "Hello, Mallory!"


async def test_a_session_belongs_to_who_opened_it(older: Wire, stranger: httpx.AsyncClient) -> None:
    stolen = Wire(stranger, LEGACY)
    stolen.session = older.session
    with pytest.raises(WireError, match="Session not found"):
        await stolen.request("tools/list")


@pytest.mark.parametrize("revision", ["legacy", "auto"])
async def test_instructions_fit_the_connection(service: Service, revision: str) -> None:
    async with client(service, revision) as plain, client(service, revision, "?ui=apps") as ui:
        told = (plain.instructions, ui.instructions)
    assert "wait for the run" in (told[0] or "")
    assert "answer as soon as the run has started" in (told[1] or "")
    assert "cannot be loaded" not in (told[0] or "")
    async with client(service, revision, "?tools=docs,nobody/nothing") as lacking:
        assert "nobody/nothing" in (lacking.instructions or "")


@pytest.mark.parametrize("query", ["ui=nonsense", "payment=cash"])
async def test_a_url_that_makes_no_sense_is_refused(http: httpx.AsyncClient, query: str) -> None:
    refused = await http.post(f"/mcp?{query}", json={"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert refused.status_code == 400
    assert "must be one of" in refused.json()["detail"]


async def test_selectors_actors_and_payment_are_taken_from_the_url(http: httpx.AsyncClient) -> None:
    chosen = Wire(http, MODERN, "?tools=get-actor-run-log,storage&actors=outlast/big-table&payment=skyfire")
    tools = {tool["name"]: tool for tool in (await chosen.request("tools/list"))["tools"]}
    assert "get-actor-log" in tools
    assert "get-dataset" in tools
    assert "call-actor" not in tools
    assert "skyfire-pay-id" in tools["outlast--big-table"]["inputSchema"]["properties"]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_each_list_of_tools_is_logged_in_one_line(
    http: httpx.AsyncClient, service: Service, revision: str
) -> None:
    """The second list comes from the connection's cache."""

    def logged() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in service.api.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == "tools listed" and line["selected"] == selected]

    selected = ["docs", "call-actor", "outlast/big-table", f"nobody/nothing-{revision}"]
    chosen = Wire(http, revision, f"?ui=openai&tools={','.join(selected)}&payment=skyfire")
    if revision == LEGACY:
        await chosen.initialize()
    listed = [(await chosen.request("tools/list"))["tools"] for _ in range(2)]
    lines = await eventually(lambda: found if len(found := logged()) >= 2 else None)
    assert len(lines) == 2
    told = {
        "level": "info",
        "mode": "openai",
        "tools": len(listed[0]),
        "actors": 1,
        "mcp_servers": {},
        "not_loaded": selected[-1:],
    }
    assert [{name: line[name] for name in told} for line in lines] == [told, told]
    everything = Wire(http, MODERN, "?ui=openai&tools=actors,runs,docs,storage,experimental,dev,ui")
    names = {tool["name"] for tool in (await everything.request("tools/list"))["tools"]}
    hidden = names - {tool["name"] for tool in listed[0]}
    assert lines[0]["hidden"] >= len(hidden) > 5


async def test_bodies_hosts_and_origins_are_checked(http: httpx.AsyncClient) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
    accept = {"Accept": "application/json, text/event-stream"}
    assert (await http.post("/mcp", json=body, headers={**accept, "Host": "evil.example"})).status_code in (400, 421)
    origin = {**accept, "Origin": "https://evil.example"}
    assert (await http.post("/mcp", json=body, headers=origin)).status_code == 403
    assert (await http.post("/mcp", content=b" " * (9 * 1024 * 1024), headers=accept)).status_code == 413


@pytest.mark.parametrize("revision", [pytest.param("legacy", marks=pytest.mark.thorough), MODERN])
async def test_cancelling_over_stdio_stops_the_run(
    service: Service, sandbox: Sandbox, tmp_path: Path, revision: str
) -> None:
    environment = settings_environment(service.temporal_address, sandbox, OUTLAST_DATA_DIR=str(tmp_path))
    command = ["-m", "tests.support.http.stdio_server", "tools=actors"]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=ROOT)
    run_id: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def heard(progress: float, total: float | None, message: str | None) -> None:
        if not run_id.done() and message and message.startswith("Run "):
            run_id.set_result(message.split()[1])

    async with Client(stdio_client(server), mode=revision) as mcp:
        await mcp.list_tools()
        calling = asyncio.create_task(mcp.call_tool("call-actor", FOREVER, progress_callback=heard))
        started = await asyncio.wait_for(run_id, 180)
        calling.cancel()
        await asyncio.gather(calling, return_exceptions=True)
        await eventually(lambda: sandbox.run(started)["status"] == "ABORTED")


async def test_runs_of_calls_over_mcp_are_in_the_usage_with_who_paid_them(service: Service) -> None:
    async with service.http(service.sandbox.add_user("mia").token) as http:
        await Wire(http, MODERN).request("tools/call", {"name": "call-actor", "arguments": SLEEPER})
        paid = {**SLEEPER, "skyfire-pay-id": "pay-token-1"}
        await Wire(http, MODERN, "?payment=skyfire").request("tools/call", {"name": "call-actor", "arguments": paid})
        report = (await http.get("/v1/usage", params={"by": ["payer", "tool"]})).json()
    told = {(row["payer"], row["tool"], row["runs"]) for row in report["rows"]}
    assert told == {("caller", "call-actor", 1), ("payment", "call-actor", 1)}
    # What came with the call counts for no cap.
    own = next(row["cost_usd"] for row in report["rows"] if row["payer"] == "caller")
    assert [cap["spent_usd"] for cap in report["caps"]] == [own, own]
