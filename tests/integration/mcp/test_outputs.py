"""Large outputs in both protocol revisions of MCP: the answer fits its schema, a model gets back what it needs."""

from typing import Any

import jsonschema
import pytest
from mcp import Client

from tests.integration.mcp.test_calls import REVISIONS, client, said
from tests.support.http.mcp_wire import Wire, text_of
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

TABLE = {"actor": "outlast/big-table", "input": {"rows": 300, "columns": "narrow"}}


async def tools_by_name(mcp: Client) -> dict[str, Any]:
    return {tool.name: tool for tool in (await mcp.list_tools()).tools}


@REVISIONS
async def test_a_large_answer_is_a_locator_a_summary_and_the_first_rows(service: Service, revision: str) -> None:
    async with client(service, revision) as mcp:
        tools = await tools_by_name(mcp)
        # The SDK's client holds every structured answer against the tool's output schema.
        result = await mcp.call_tool("call-actor", TABLE)
        report = result.structured_content
        assert report is not None
        assert report["compressed"] is True
        assert report["locator"] in said(result)
        assert "restore-tool-output" in said(result)
        assert len(said(result)) < 6_000, "about a thousand tokens, whatever the size"
        arguments = {"locator": report["locator"], "filter": "id == `299`", "fields": "id"}
        restored = await mcp.call_tool("restore-tool-output", arguments)
    assert tools["restore-tool-output"].annotations.read_only_hint is True
    assert restored.structured_content is not None
    assert restored.structured_content["items"] == [{"id": 299}]


async def test_the_short_form_fits_the_schema_of_any_tool_whose_call_asks_for_it(wire: Wire, sandbox: Sandbox) -> None:
    dataset = sandbox.new_dataset([{"n": number} for number in range(200)])
    tools = (await wire.request("tools/list", {}))["tools"]
    (schema,) = (tool["outputSchema"] for tool in tools if tool["name"] == "get-actor-output")
    meta = {"outlast/options": {"output": {"threshold_bytes": 500}}}
    params = {"name": "get-actor-output", "arguments": {"datasetId": dataset}, "_meta": meta}
    answer = await wire.request("tools/call", params)
    jsonschema.validate(answer["structuredContent"], schema)
    assert answer["structuredContent"]["compressed"] is True
    assert answer["structuredContent"]["locator"] in text_of(answer)


@pytest.mark.parametrize("query", ["?tools=call-actor", "?tools=get-key-value-store-record", "?actors=outlast/sleeper"])
async def test_the_restore_tool_comes_with_every_tool_that_may_store(service: Service, query: str) -> None:
    async with client(service, "legacy", query) as mcp:
        assert "restore-tool-output" in await tools_by_name(mcp)


async def test_without_such_a_tool_it_stays_away(service: Service) -> None:
    async with client(service, "legacy", "?tools=get-dataset") as mcp:
        assert list(await tools_by_name(mcp)) == ["get-dataset"]


async def test_somebody_elses_locator_is_refused(service: Service, wire: Wire, stranger: Any) -> None:
    mine = await wire.request("tools/call", {"name": "call-actor", "arguments": TABLE})
    locator = mine["structuredContent"]["locator"]
    theirs = Wire(stranger, "2026-07-28")
    refused = await theirs.request("tools/call", {"name": "restore-tool-output", "arguments": {"locator": locator}})
    assert refused["isError"] is True
    assert "belongs to" in text_of(refused)
