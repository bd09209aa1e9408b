"""An Actor that is an MCP server and breaks the protocol's schema here and there: what is understood arrives."""

import json
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator

from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN, Wire, text_of

ROUGH = "outlast/rough-server"
OFFERED = {f"outlast--rough-server-{name}" for name in ("answer", "ask", "bare", "loose", "faulty")}


async def answer(http: httpx.AsyncClient, tool: str, **run_input: Any) -> dict[str, Any]:
    arguments = {"actor": f"{ROUGH}:{tool}", "input": run_input}
    response = await http.post("/v1/tools/call-actor/call", json={"arguments": arguments})
    assert response.status_code == 200, response.text
    return response.json()["result"]


async def test_the_good_tools_are_offered(http: httpx.AsyncClient) -> None:
    wire = Wire(http, MODERN, f"?tools={ROUGH}")
    tools = {tool["name"]: tool for tool in (await wire.request("tools/list"))["tools"]}
    assert {name for name in tools if name.startswith("outlast--rough")} == OFFERED
    assert tools["outlast--rough-server-answer"]["description"] == "Answers as it is told."
    assert all(tools[name]["inputSchema"]["type"] == "object" for name in OFFERED)
    called = await wire.request("tools/call", {"name": "outlast--rough-server-answer", "arguments": {"as": "text"}})
    assert text_of(called) == "just a text"


async def test_schemas_that_are_none_are_listed_without_their_faults(http: httpx.AsyncClient) -> None:
    """Clients hand them to providers, which refuse a whole list for one of them. The server checks the arguments."""
    wire = Wire(http, MODERN, f"?tools={ROUGH}")
    tools = {tool["name"]: tool for tool in (await wire.request("tools/list"))["tools"]}
    for name in OFFERED:
        Draft202012Validator.check_schema(tools[name]["inputSchema"])
    faulty = tools["outlast--rough-server-faulty"]["inputSchema"]["properties"]
    assert (faulty["a"], faulty["b"]) == ({}, {})
    for name in ("loose", "faulty"):
        called = await wire.request("tools/call", {"name": f"outlast--rough-server-{name}", "arguments": {"b": 1}})
        assert (called["isError"], "calls" in called["structuredContent"]) == (False, True), called


@pytest.mark.parametrize("mode", ["default", "apify"])
async def test_the_bad_ones_are_named_with_their_flaw(http: httpx.AsyncClient, mode: str) -> None:
    arguments = {"actor": ROUGH, "output": {"mcpTools": True}}
    body = {"arguments": arguments, "mode": mode}
    result = (await http.post("/v1/tools/fetch-actor-details/call", json=body)).json()["result"]
    text = "\n".join(block["text"] for block in result["content"])
    for note in (
        "Tool 'without' cannot be used: its inputSchema is missing",
        "Tool 'null' cannot be used: its inputSchema is null",
        "Tool 'list' cannot be used: its inputSchema is list",
        "Tool 'array' cannot be used: its inputSchema has the type 'array'",
        "Tool number 6 cannot be used: it has no name.",
        "Tool number 8 cannot be used: it is no object.",
    ):
        assert note in text
    assert "`ask`" in text


async def test_what_is_understood_of_an_answer_stays_and_the_rest_is_json(http: httpx.AsyncClient) -> None:
    before = (await answer(http, "bare"))["structured"]["calls"]
    result = await answer(http, "answer", **{"as": "blocks"})
    assert (result["is_error"], result["error"]) == (False, None)
    blocks = result["raw_content"]
    assert blocks[0] == {"type": "text", "text": "done"}
    assert json.loads(blocks[1]["text"]) == {"type": "new_thing", "value": {"a": 1}}
    assert json.loads(blocks[2]["text"]) == {"type": "text", "text": None}
    assert blocks[3] == {"type": "text", "text": "7"}
    assert json.loads(blocks[4]["text"]) == {"type": "text"}
    assert (blocks[5]["type"], blocks[5]["mimeType"]) == ("image", "image/jpeg")
    assert blocks[6] == {"type": "text", "text": "kept"}
    assert [block["text"] for block in blocks[9:]] == ["a text", "null", '["x"]', '["rows"]']
    assert (await answer(http, "bare"))["structured"]["calls"] == before + 2, "the tool was called once"


@pytest.mark.parametrize(
    ("kind", "text", "is_error"),
    [
        ("text", "just a text", False),
        ("block", "one block", False),
        ("none", "", False),
        ("error", "no luck", True),
        ("text_id", "id as a text", False),
    ],
)
async def test_an_answer_in_another_form_is_one(http: httpx.AsyncClient, kind: str, text: str, is_error: bool) -> None:
    result = await answer(http, "answer", **{"as": kind})
    assert "\n".join(block["text"] for block in result["raw_content"]) == text
    assert result["is_error"] is is_error
    if kind == "none":
        assert result["structured"] == {"ok": True}


async def test_an_answer_of_which_nothing_is_understood_is_an_error_at_once(http: httpx.AsyncClient) -> None:
    result = await answer(http, "answer", **{"as": "null"})
    assert result["is_error"]
    assert "no message of JSON-RPC" in result["error"]["message"]
    assert "may have done its work" in result["error"]["hint"]


async def test_a_question_without_words_and_schema_reaches_the_caller(http: httpx.AsyncClient) -> None:
    body = {"tool": "call-actor", "arguments": {"actor": f"{ROUGH}:ask", "input": {}}}
    task = (await http.post("/v1/tasks", json=body)).raise_for_status().json()

    async def asks() -> dict[str, Any] | None:
        shown = (await http.get(f"/v1/tasks/{task['id']}")).json()
        return shown["input_requests"] if shown["status"] == "input_required" else None

    ((key, question),) = (await eventually(asks)).items()
    assert question["message"] == ""
    given = {"answers": {key: {"action": "accept", "content": {}}}}
    (await http.post(f"/v1/tasks/{task['id']}/input", json=given)).raise_for_status()
    ended = (await http.get(f"/v1/tasks/{task['id']}/result", params={"wait": 60})).json()["result"]
    assert json.loads(ended["raw_content"][0]["text"])["result"] == {"action": "accept", "content": {}}
