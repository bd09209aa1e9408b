"""`python -m tests.contract.recorded.record FOLDER`: ask the server of this checkout and write its answers as JSON.

The answers beside this module were recorded from the version before tool masks, with this module copied into its
checkout. They are not recorded anew: they are what clients of that version know.
"""

import json
import sys
import tempfile
from pathlib import Path

import httpx

from tests.contract.recorded.exchange import Caller, Exchange, Json
from tests.support.stacks.sandbox import running_sandbox
from tests.support.stacks.service import running_service
from tests.support.stacks.temporal import running_temporal

SLEEPER: Json = {"tool": "call-actor", "arguments": {"actor": "outlast/sleeper", "input": {"seconds": 0.1, "rows": 2}}}
LEGACY, MODERN = "2025-11-25", "2026-07-28"
ALL_TOOLS = "?tools=actors,runs,docs,storage,experimental,dev,outlast/sleeper"


def rest(name: str, method: str, path: str, json_body: Json = None, **more: Json) -> Exchange:
    headers = more.pop("headers", {})
    request = {"method": method, "path": path, "headers": headers}
    return {"name": name, "request": request | ({} if json_body is None else {"json": json_body}), **more}


REST = [
    rest("health", "GET", "/healthz"),
    rest("tools", "GET", "/v1/tools"),
    rest("tools of the UI mode", "GET", "/v1/tools?mode=openai"),
    rest("one tool", "GET", "/v1/tools/call-actor"),
    rest("an Actor's tool", "GET", "/v1/tools/outlast--sleeper"),
    rest("no such tool", "GET", "/v1/tools/call-actors"),
    rest("start", "POST", "/v1/tasks", SLEEPER, save={"task": "id"}),
    rest("result", "GET", "/v1/tasks/{task}/result?wait=60", save={"run": "task/run/run_id"}),
    rest("task", "GET", "/v1/tasks/{task}", save={"dataset": "run/dataset_id"}),
    rest("events", "GET", "/v1/tasks/{task}/events"),
    rest("list", "GET", "/v1/tasks?tool=call-actor&page_size=1"),
    rest("awaited", "POST", "/v1/tasks", SLEEPER, headers={"Prefer": "wait=60"}),
    rest("in the UI mode", "POST", "/v1/tasks", SLEEPER | {"mode": "openai"}, headers={"Prefer": "wait=60"}),
    rest("the first of a key", "POST", "/v1/tasks", SLEEPER, headers={"Idempotency-Key": "recorded"}),
    rest("the same again", "POST", "/v1/tasks", SLEEPER, headers={"Idempotency-Key": "recorded", "Prefer": "wait=60"}),
    rest(
        "another under the key",
        "POST",
        "/v1/tasks",
        {"tool": "get-dataset-list"},
        headers={"Idempotency-Key": "recorded"},
    ),
    rest("unknown tool", "POST", "/v1/tasks", {"tool": "call-actors"}),
    rest("bad arguments", "POST", "/v1/tasks", {"tool": "get-dataset-items", "arguments": {"limit": -1, "odd": 1}}),
    rest("unknown field", "POST", "/v1/tasks", SLEEPER | {"colour": "red"}),
    rest("bad session", "POST", "/v1/tasks", SLEEPER | {"session_id": "a b"}),
    rest("a failing tool", "POST", "/v1/tools/get-actor-run/call", {"arguments": {"runId": "absent"}}),
    rest("the run", "POST", "/v1/tools/get-actor-run/call", {"arguments": {"runId": "{run}"}}),
    rest("rows", "POST", "/v1/tools/get-dataset-items/call", {"arguments": {"datasetId": "{dataset}", "limit": 1}}),
    rest("an Actor directly", "POST", "/v1/tools/outlast--sleeper/call", {"arguments": {"seconds": 0.1}}),
    rest("no such task", "GET", "/v1/tasks/absent"),
    rest("cancelled too late", "POST", "/v1/tasks/{task}/cancel"),
    rest("answered too late", "POST", "/v1/tasks/{task}/input", {"answers": {"a": {"action": "accept"}}}),
]


def mcp(revision: str, name: str, method: str, params: Json = None, **more: Json) -> Exchange:
    """A JSON-RPC request over HTTP as a client of this revision sends it."""
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": revision}
    params = dict(params or {})
    if revision == MODERN:
        prefix = "io.modelcontextprotocol"
        params["_meta"] = {
            f"{prefix}/protocolVersion": revision,
            f"{prefix}/clientCapabilities": {},
            **params.get("_meta", {}),
        }
        headers |= {"Mcp-Method": method} | ({"Mcp-Name": params["name"]} if "name" in params else {})
    elif method == "initialize":
        del headers["MCP-Protocol-Version"]
    else:
        headers["Mcp-Session-Id"] = "{mcp_session}"
    body = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}
    if method.startswith("notifications/"):
        del body["id"]
    path = f"/mcp{more.pop('query', ALL_TOOLS)}"
    return {"name": name, "request": {"method": "POST", "path": path, "headers": headers, "json": body}, **more}


def of_revision(revision: str) -> list[Exchange]:
    return [
        mcp(revision, "tools", "tools/list"),
        mcp(revision, "an Actor", "tools/call", {"name": "call-actor", "arguments": SLEEPER["arguments"]}),
        mcp(revision, "an Actor directly", "tools/call", {"name": "outlast--sleeper", "arguments": {"seconds": 0.1}}),
        mcp(revision, "a failing tool", "tools/call", {"name": "get-actor-run", "arguments": {"runId": "absent"}}),
        mcp(revision, "bad arguments", "tools/call", {"name": "get-dataset-items", "arguments": {"limit": -1}}),
        mcp(revision, "unknown tool", "tools/call", {"name": "call-actors", "arguments": {}}),
        mcp(revision, "no such task", "tools/call", {"name": "get-task", "arguments": {"taskId": "absent"}}),
        mcp(revision, "resources", "resources/list"),
        mcp(revision, "prompts", "prompts/list"),
    ]


def handshake(**more: Json) -> list[Exchange]:
    params = {"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "recorded", "version": "1"}}
    return [
        mcp(LEGACY, "initialize", "initialize", params, **more),
        mcp(LEGACY, "initialized", "notifications/initialized", **more),
    ]


MCP_LEGACY = [
    *handshake(),
    *of_revision(LEGACY),
    mcp(
        LEGACY,
        "as a task",
        "tools/call",
        {"name": "call-actor", "arguments": SLEEPER["arguments"], "task": {}},
        save={"mcp_task": "result/task/taskId"},
    ),
    mcp(LEGACY, "the task's result", "tasks/result", {"taskId": "{mcp_task}"}),
    *handshake(query="?ui=openai"),
    mcp(LEGACY, "tools of the UI mode", "tools/list", query="?ui=openai"),
]
MCP_MODERN = [mcp(MODERN, "discover", "server/discover"), *of_revision(MODERN)]
SETS = {"rest": REST, "mcp-2025-11-25": MCP_LEGACY, "mcp-2026-07-28": MCP_MODERN}


def main(folder: Path) -> None:
    """Record every set into `folder`."""
    with tempfile.TemporaryDirectory() as temporary:
        own = Path(temporary)
        with (
            running_temporal(own) as temporal,
            running_sandbox(own) as sandbox,
            running_service(own, temporal.address, sandbox) as service,
        ):
            for name, exchanges in SETS.items():
                with httpx.Client(base_url=service.api_url, trust_env=False, timeout=90) as http:
                    caller = Caller(http)
                    answered = [caller.ask(exchange) for exchange in exchanges]
                lines = [json.dumps(exchange, ensure_ascii=False) for exchange in answered]
                (folder / f"{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
