"""Tools of MCP servers over REST, MCP, the command line and the Python client."""

import json
from pathlib import Path
from typing import Any

import httpx
from mcp import Client

from outlast.client import AsyncClient
from tests.integration.servers.conftest import SECRET, Notebook
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, text_of
from tests.support.processes.terminal import Shell
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.service import Service

TOOLS = {"notes__add", "notes__read", "notes__fail", "guarded__add", "guarded__read"}


async def called(http: httpx.AsyncClient, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments})
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


async def test_a_call_over_rest_is_a_task_with_the_answer_of_the_server(
    http: httpx.AsyncClient, notebook: Notebook
) -> None:
    before = len(notebook.lines())
    result = await called(http, "notes__add", text="over rest")
    assert result["structured"] == {"lines": before + 1}
    assert notebook.lines()[before:] == ["over rest"]
    assert "over rest" in (await called(http, "notes__read"))["raw_content"][0]["text"]
    failed = await called(http, "notes__fail")
    assert failed["is_error"]
    assert failed["raw_content"] == [{"type": "text", "text": "The notebook is wet."}]


async def test_arguments_are_checked_before_the_server_is_called(http: httpx.AsyncClient, notebook: Notebook) -> None:
    before = notebook.lines()
    refused = await http.post("/v1/tools/notes__add/call", json={"arguments": {}})
    assert refused.status_code == 422
    assert notebook.lines() == before
    unknown = await http.post("/v1/tools/notes__gone/call", json={"arguments": {}})
    assert unknown.status_code == 404
    broken = await http.post("/v1/tools/broken__any/call", json={"arguments": {}})
    assert broken.status_code == 503
    assert "'broken' are not known" in broken.json()["detail"]


async def test_the_tools_are_listed_with_their_server(http: httpx.AsyncClient) -> None:
    listed = {tool["name"]: tool for tool in (await http.get("/v1/tools")).json()["tools"]}
    assert listed.keys() >= TOOLS
    assert listed["notes__add"]["category"] == "servers"
    assert listed["notes__add"]["server"] == "notes"
    assert "guarded__fail" not in listed
    picks = next(tool for tool in listed.values() if tool["title"] == "pick.lines")
    assert picks["name"].startswith("notes__pick-lines-")


async def test_both_revisions_of_mcp_list_and_call_them(http: httpx.AsyncClient, notebook: Notebook) -> None:
    for revision in (MODERN, LEGACY):
        wire = Wire(http, revision, "?tools=notes")
        told = await (wire.initialize() if revision == LEGACY else wire.request("server/discover"))
        assert "## MCP server notes (tools `notes__...`)\nAdd short lines." in told["instructions"]
        assert "guarded" not in told["instructions"]
        listed = {tool["name"]: tool for tool in (await wire.request("tools/list"))["tools"]}
        assert not any(name.startswith("guarded") for name in listed)
        assert listed["notes__add"]["outputSchema"]["anyOf"][0]["required"] == ["lines"]
        assert listed["notes__add"]["inputSchema"]["required"] == ["text"]
        assert listed["notes__add"]["annotations"]["destructiveHint"]
        assert {"get-task", "cancel-task"} <= listed.keys()
        picks = next(tool for name, tool in listed.items() if name.startswith("notes__pick"))
        assert "oneOf" not in picks["inputSchema"]
        assert picks["inputSchema"]["properties"].keys() == {"first", "last"}
        answer = await wire.request("tools/call", {"name": "notes__add", "arguments": {"text": revision}})
        assert answer["structuredContent"] == {"lines": len(notebook.lines())}
        assert text_of(answer) == f"{len(notebook.lines())} lines"
    assert notebook.lines()[-2:] == [MODERN, LEGACY]


async def test_a_connection_with_tools_of_servers_alone_can_collect_their_results(
    service: Service, notebook: Notebook
) -> None:
    temporal = await connect(service.temporal_address)
    settings = api_settings(service.sandbox, builtin_tools="off", mcp_servers_file=notebook.file)
    async with serving_api(temporal, settings, whole=True) as api:
        names = {tool["name"] for tool in (await Wire(api, MODERN).request("tools/list"))["tools"]}
    assert names >= {"notes__add", "get-task", "cancel-task", "restore-tool-output"}
    assert "call-actor" not in names


async def test_the_sdk_accepts_answers_and_their_schemas(service: Service) -> None:
    async with Client(f"{service.api_url}/mcp?tools=notes") as client:
        answer = await client.call_tool("notes__add", {"text": "from the sdk"})
        assert answer.structured_content is not None
        assert answer.structured_content.keys() == {"lines"}


async def test_a_large_answer_is_stored_for_models(service: Service, http: httpx.AsyncClient) -> None:
    large = "x" * 100_000
    async with Client(f"{service.api_url}/mcp?tools=notes") as client:
        assert "restore-tool-output" in {tool.name for tool in (await client.list_tools()).tools}
        await client.call_tool("notes__add", {"text": large})
        answer = await client.call_tool("notes__read", {})
    assert answer.structured_content is not None
    assert answer.structured_content["compressed"] is True
    stored = await http.get(f"/v1/outputs/{answer.structured_content['locator']}")
    assert large in stored.text


async def test_the_client_and_the_command_line_call_them(service: Service, notebook: Notebook, tmp_path: Path) -> None:
    async with AsyncClient(service.api_url) as client:
        assert (await client.call("notes__add", {"text": "from python"})).result is not None
        tool = await client.tool("notes__add")
        assert (tool.server, tool.category) == ("notes", "servers")
    ended = await Shell(service, tmp_path).outlast("call", "notes__add", "-a", "text=from a shell")
    assert ended.code == 0, ended.said
    assert notebook.lines()[-2:] == ["from python", "from a shell"]


async def test_an_approval_that_the_file_requires_is_asked_for(http: httpx.AsyncClient, notebook: Notebook) -> None:
    started = await http.post("/v1/tasks", json={"tool": "guarded__add", "arguments": {"text": "approved"}})
    assert started.status_code == 201, started.text
    task_id = started.json()["task"]["id"] if "task" in started.json() else started.json()["id"]

    async def question() -> dict[str, Any] | None:
        task = (await http.get(f"/v1/tasks/{task_id}")).json()
        return (task.get("task") or task).get("input_requests")

    asked = await eventually(question)
    assert notebook.lines("guarded") == []
    (key,) = asked
    given = {"answers": {key: {"action": "accept", "content": {"decision": "yes"}}}}
    answered = await http.post(f"/v1/tasks/{task_id}/input", json=given)
    assert answered.is_success, answered.text
    await eventually(lambda: notebook.lines("guarded") == ["approved"])


async def test_admins_see_servers_and_nobody_sees_their_secrets(
    http: httpx.AsyncClient, service: Service, tmp_path: Path
) -> None:
    await http.get("/v1/tools")
    found = {one["name"]: one for one in (await http.get("/v1/servers")).json()["servers"]}
    assert list(found) == ["notes", "guarded", "broken"]
    assert (found["notes"]["state"], found["notes"]["kind"], found["notes"]["tools"]) == ("up", "stdio", 4)
    assert found["broken"]["state"] == "down"
    details = (await http.get("/v1/servers/notes", params={"max_age_seconds": 0})).json()
    rules = {tool["called"]: tool for tool in details["offered"]}
    assert rules["notes__read"]["repeats_safely"]
    assert not rules["notes__add"]["repeats_safely"]
    assert details["instructions"] == "Add short lines."
    assert (await http.get("/v1/servers/gone")).status_code == 404
    shell = Shell(service, tmp_path)
    assert "notes__add" in (await shell.outlast("servers", "tools", "notes")).out
    listed = json.loads((await shell.outlast("servers", "ls", "--json")).out)
    assert [one["name"] for one in listed["servers"]] == ["notes", "guarded", "broken"]
    assert (await shell.outlast("servers", "test", "notes")).code == 0
    failed = await shell.outlast("servers", "test", "broken")
    assert failed.code == 1
    checked = json.loads((await shell.outlast("doctor", "--json")).out)["checks"]
    rows = {row["name"]: row["health"] for row in checked if row["name"].startswith("MCP server ")}
    assert rows == {"MCP server notes": "ok", "MCP server guarded": "ok", "MCP server broken": "fail"}
    for log in (service.api.log, service.worker.log):
        assert SECRET not in log.read_text()


async def test_a_batch_and_a_saved_call_use_them(service: Service, notebook: Notebook) -> None:
    async with AsyncClient(service.api_url) as client:
        batch = await client.batches.start("notes__add", [{"text": f"item {number}"} for number in range(3)])
        ended = await client.batches.wait(batch.id)
        assert ended.status == "completed"
        assert {f"item {number}" for number in range(3)} <= set(notebook.lines())
        await client.saved_calls.save("a-note", "notes__add", {"text": "saved"})
        task = await client.saved_calls.start("a-note")
        await client.wait(task.id)
    assert "saved" in notebook.lines()


async def test_open_connections_hear_of_other_tools(http: httpx.AsyncClient, notebook: Notebook) -> None:
    wire = Wire(http, LEGACY, "?tools=notes,later")
    await wire.initialize()
    before = {tool["name"] for tool in (await wire.request("tools/list"))["tools"]}
    assert "later__read" not in before
    async with wire.notifications() as told:
        notebook.write_file(later=notebook.entry("later"))
        while (await told.get())["method"] != "notifications/tools/list_changed":
            pass
    after = {tool["name"] for tool in (await wire.request("tools/list"))["tools"]}
    assert "later__read" in after
    notebook.write_file()
