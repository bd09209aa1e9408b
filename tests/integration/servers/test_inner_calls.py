"""Calls that a tool's function makes of tools of MCP servers (`ctx.call`): tasks, under the rules of the file."""

import json
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.calls.questions import asks, taken
from tests.support.calls.tasks import completed, result_of, started
from tests.support.eventually import eventually
from tests.support.mcp import effects_server
from tests.support.stacks.fixtures import http_fixture, service_fixture

service = service_fixture(
    scope="module",
    settings_from="settings",
    tools=["tests.support.tools.step_tools", "tests.support.tools.calling_tools"],
    permissions=["*:effects__put=deny"],
)
api = http_fixture()


@pytest.fixture(scope="module")
def effects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("effects") / "lines"


@pytest.fixture(scope="module")
def settings(effects: Path) -> dict[str, str]:
    server = {"command": sys.executable, "args": [effects_server.__file__], "env": {"EFFECTS": str(effects)}}
    guarded = {**server, "outlast": {"approve": ["append"]}}
    file = effects.with_name("servers.json")
    file.write_text(json.dumps({"mcpServers": {"effects": server, "guarded": guarded}}))
    return {"OUTLAST_MCP_SERVERS_FILE": str(file)}


def calls(tool: str, by: str = "call_named", **arguments: Any) -> dict[str, Any]:
    return {"tool": by, "arguments": {"name": tool, "arguments": arguments}}


def lines(effects: Path) -> list[str]:
    return effects.read_text().splitlines() if effects.exists() else []


async def answer_of(api: httpx.AsyncClient, tool: str, **arguments: Any) -> dict[str, Any]:
    return (await completed(api, calls(tool, **arguments)))["result"]["structured"]


async def test_a_function_calls_a_tool_of_a_server_as_a_task(api: httpx.AsyncClient, effects: Path) -> None:
    task_id = await started(api, calls("effects__append", text="from within"))
    assert (await result_of(api, task_id))["result"]["structured"]["text"] == "did from within"
    assert lines(effects) == ["from within"]
    inner = [one for one in (await api.get("/v1/tasks")).json()["tasks"] if one.get("called_by") == task_id]
    assert [(one["tool"], one["status"]) for one in inner] == [("effects__append", "completed")]


async def test_calls_of_a_conversation_share_a_session_with_the_server(api: httpx.AsyncClient) -> None:
    counts = [
        (await completed(api, {**calls("effects__count"), "session_id": session}))["result"]["structured"]["text"]
        for session in ("one", "one", "other")
    ]
    assert counts == ["1", "2", "1"]


@pytest.mark.parametrize(
    ("tool", "arguments", "category", "words"),
    [
        ("effects__put", {"text": "denied"}, "permission", "permissions deny it"),
        ("effects__append", {"text": 7.5}, "validation", "/text: "),
        ("effects__apend", {"text": "misspelt"}, "not_found", "There is no tool 'effects__apend'"),
    ],
)
async def test_a_call_of_a_server_passes_the_rules_of_its_caller(
    api: httpx.AsyncClient, effects: Path, tool: str, arguments: dict[str, Any], category: str, words: str
) -> None:
    before = lines(effects)
    answer = await answer_of(api, tool, **arguments)
    assert (answer["category"], words in answer["message"]) == (category, True), answer
    assert lines(effects) == before


async def test_a_misspelt_tool_of_a_server_is_answered_with_similar_names(api: httpx.AsyncClient) -> None:
    error = (await completed(api, calls("effects__apend", by="forward")))["result"]["error"]
    assert error["hint"].startswith("Did you mean effects__append")


async def test_an_approval_of_the_file_is_awaited(api: httpx.AsyncClient, effects: Path) -> None:
    before = lines(effects)
    task_id = await started(api, calls("guarded__append", text="approved"))

    async def inner() -> dict[str, Any] | None:
        listed = (await api.get("/v1/tasks")).json()["tasks"]
        return next((one for one in listed if one.get("called_by") == task_id), None)

    waiting = await asks(api, (await eventually(inner))["id"])
    assert lines(effects) == before
    await taken(api, waiting, {"decision": "yes"})
    assert (await result_of(api, task_id))["result"]["structured"]["text"] == "did approved"


async def test_an_unknown_outcome_of_a_server_is_that_of_the_function(api: httpx.AsyncClient) -> None:
    seen = await answer_of(api, "effects__die")
    assert seen["category"] == "outcome_unknown"
    task_id = await started(api, calls("guarded__die", by="forward"))
    error = (await result_of(api, task_id))["result"]["error"]
    assert error["category"] == "outcome_unknown"
    assert "It is unknown whether guarded__die was executed" in error["message"]
    assert "Do not repeat the call" in error["hint"]
    resolved = await api.post(f"/v1/tasks/{task_id}/resolve", json={"outcome": "not_done"})
    assert resolved.is_success, resolved.text
