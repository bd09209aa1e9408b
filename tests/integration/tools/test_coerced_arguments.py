"""Arguments as models write them: the same reading in every mode, over REST and MCP, for tools and Actors."""

import json
from typing import Any

import httpx
import pytest

from tests.support.http.mcp_wire import MODERN, Wire, text_of

INPUT = json.dumps({"seconds": "0", "rows": "2", "message": None})
NOTES = ("/input: a string with JSON was read as an object", "/input/rows: a string was read as a number")
CHANGED = "outlast/changedArguments"
MODES = pytest.mark.parametrize("mode", ["default", "apify"])


async def rest(http: httpx.AsyncClient, mode: str, tool: str, **arguments: Any) -> tuple[str, Any, bool]:
    answer = await http.post(f"/v1/tools/{tool}/call", json={"arguments": arguments, "mode": mode})
    if answer.status_code != 200:
        return answer.text, None, True
    result = answer.json()["result"]
    text = "\n".join(block.get("text", "") for block in result["content"])
    return f"{text}\n{result['meta'].get(CHANGED)}", result["structured"], result["is_error"]


async def mcp(http: httpx.AsyncClient, mode: str, tool: str, **arguments: Any) -> tuple[str, Any, bool]:
    wire = Wire(http, MODERN, f"?mode={mode}&tools=actors,runs,storage")
    result = await wire.request("tools/call", {"name": tool, "arguments": arguments})
    text = f"{text_of(result)}\n{result.get('_meta', {}).get(CHANGED)}"
    return text, result.get("structuredContent"), result["isError"]


@MODES
@pytest.mark.parametrize("door", [rest, mcp])
async def test_an_actors_input_is_read_as_its_schema_has_it(http: httpx.AsyncClient, door: Any, mode: str) -> None:
    text, structured, is_error = await door(http, mode, "call-actor", actor="outlast/sleeper", input=INPUT)
    assert not is_error, text
    assert all(note in text for note in NOTES), text
    rows = structured.get("items") or structured["storages"]["datasets"]["default"]
    assert (len(rows) if isinstance(rows, list) else rows["itemCount"]) == 2


@pytest.mark.parametrize("door", [rest, mcp])
async def test_optional_arguments_may_be_null(http: httpx.AsyncClient, door: Any) -> None:
    text, structured, is_error = await door(http, "default", "get-actor-run-list", limit="1", offset=None)
    assert not is_error, text
    assert structured["count"] <= 1


@pytest.mark.parametrize("value", ["sleep well", '["a"'])
async def test_what_cannot_be_read_is_named_with_what_was_sent(http: httpx.AsyncClient, value: str) -> None:
    text, _, is_error = await rest(http, "default", "call-actor", actor="outlast/sleeper", input=value)
    assert is_error
    assert "you sent a string" in text
