"""A mode of another package brings its own way to speak MCP: it is spoken in this mode, and in no other."""

import re
from typing import Any

import httpx
import pytest

from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError, text_of

REVISIONS = pytest.mark.parametrize("revision", [LEGACY, MODERN])
SHORT: dict[str, Any] = {"actor": "outlast/sleeper", "input": {"seconds": 0.5, "steps": 2}}


async def connected(http: httpx.AsyncClient, revision: str, mode: str) -> Wire:
    wire = Wire(http, revision, f"?mode={mode}&tools=actors,runs")
    if revision == LEGACY:
        await wire.initialize()
    return wire


@REVISIONS
async def test_a_mode_of_another_package_speaks_in_its_own_way(http: httpx.AsyncClient, revision: str) -> None:
    own, default = [await connected(http, revision, mode) for mode in ("anthropic", "default")]
    params = {"name": "artifact.call-actor", "arguments": SHORT, "_meta": {"progressToken": "p"}}
    messages = [message async for message in own.messages("tools/call", params)]
    answer = messages[-1]["result"]
    run_id = answer["structuredContent"]["runId"]
    told = [message["params"] for message in messages if message.get("method") == "notifications/progress"]
    assert told[0]["message"] == "artifact: run_started"
    assert {step["_meta"]["artifact"] for step in told} == {run_id}
    refused = await own.request("tools/call", {"name": "call-actor", "arguments": {}})
    assert (refused["isError"], text_of(refused)) == (True, "No artifact of call-actor.")
    with pytest.raises(WireError, match=re.escape("No artifact is made by 'nothing'.")):
        await own.request("tools/call", {"name": "nothing", "arguments": {}})
    with pytest.raises(WireError, match=r"There is no tool 'artifact\.call-actor'"):
        await default.request("tools/call", {"name": "artifact.call-actor", "arguments": SHORT})
    left = await own.request(
        "tools/call", {"name": "call-actor", "arguments": SHORT, "_meta": {"outlast/wait-secs": 0}}
    )
    assert left["structuredContent"]["status"] in ("READY", "RUNNING", "SUCCEEDED")


async def test_its_tasks_are_told_in_its_words(http: httpx.AsyncClient) -> None:
    own, default = [await connected(http, LEGACY, mode) for mode in ("anthropic", "default")]
    support = {
        wire: {tool["name"]: tool.get("execution", {}).get("taskSupport") for tool in listed["tools"]}
        for wire, listed in [("own", await own.request("tools/list")), ("default", await default.request("tools/list"))]
    }
    assert (support["own"]["call-actor"], support["own"]["get-actor-run"]) == ("optional", None)
    assert support["default"]["get-actor-run"] == "optional"
    said: list[str] = []
    for wire in (own, default):
        started = await wire.request("tools/call", {"name": "call-actor", "arguments": SHORT, "task": {}})
        task_id = started["task"]["taskId"]
        await wire.request("tasks/result", {"taskId": task_id})
        said.append((await wire.request("tasks/get", {"taskId": task_id}))["statusMessage"])
    assert said[0] == "artifact completed"
    assert not said[1].startswith("artifact")
