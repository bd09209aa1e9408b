"""A connection with more tools than it lists: a model finds, reads and calls them through three that are listed."""

import asyncio
import json
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
import pytest

from outlast.api.catalog.discovery import has_discovery, listed, with_discovery
from outlast.workflows.tools.registry import tool_set
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, text_of
from tests.support.stacks.fixtures import http_fixture, service_fixture
from tests.support.tools.many_tools import get_weather_forecast

service = service_fixture(scope="module", tools=["tests.support.tools.many_tools"])
api = http_fixture()
DISCOVERY = {"search-tools", "describe-tools", "call-tool"}


async def connected(api: httpx.AsyncClient, revision: str, query: str = "?tools=dev") -> Wire:
    wire = Wire(api, revision, query)
    if revision == LEGACY:
        await wire.initialize()
    return wire


async def call(wire: Wire, tool: str, /, **arguments: Any) -> dict[str, Any]:
    return await wire.request("tools/call", {"name": tool, "arguments": arguments})


async def found(wire: Wire, query: str, **more: Any) -> list[str]:
    return [
        one["name"] for one in (await call(wire, "search-tools", query=query, **more))["structuredContent"]["tools"]
    ]


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_a_model_finds_reads_and_calls_what_is_not_listed(api: httpx.AsyncClient, revision: str) -> None:
    wire = await connected(api, revision)
    listed = {one["name"] for one in (await wire.request("tools/list", {}))["tools"]}
    assert listed >= DISCOVERY | {"get-task"}
    assert not any(name.startswith(("sensor", "createInvoice")) for name in listed)
    assert await found(wire, "Will it rain in Prague?", limit=1) == ["get_weather_forecast"]
    assert (await found(wire, "invoices"))[0] == "createInvoice"
    assert (await found(wire, "forecasting"))[0] == "get_weather_forecast"
    assert len(await found(wire, "sensors of the hall", limit=20)) == 20
    described = (await call(wire, "describe-tools", names=["createInvoice"]))["structuredContent"]["tools"]
    assert described[0]["inputSchema"]["properties"]["amount"]["description"] == "Price in euros."
    answer = await call(wire, "call-tool", name="createInvoice", arguments={"customer": "Ann", "amount": 5})
    assert text_of(answer) == "Ann pays 5."
    assert answer["_meta"]["outlast/taskId"].startswith("createInvoice-")
    assert text_of(await call(wire, "createInvoice", customer="Bob", amount=1)) == "Bob pays 1.", "by its name, too"


async def test_a_model_of_an_adapter_does_so_too(api: httpx.AsyncClient) -> None:
    async def listed(selection: str) -> list[str]:
        tools = (await api.get("/v1/adapters/openai-chat/tools", params={"tools": selection})).json()["tools"]
        return [tool["function"]["name"] for tool in tools]

    async def answered(tool: str, **arguments: Any) -> tuple[str, str]:
        function = {"name": tool, "arguments": json.dumps(arguments)}
        message = {"role": "assistant", "tool_calls": [{"id": uuid4().hex, "type": "function", "function": function}]}
        answer = await api.post("/v1/adapters/openai-chat/calls", json={"message": message, "tools": ["dev"]})
        assert answer.status_code == 200, answer.text
        return answer.json()["append"][0]["content"], answer.json()["calls"][0]["tool"]

    names = await listed("dev")
    assert set(names) >= DISCOVERY
    assert not any(name.startswith("sensor") for name in names)
    assert "call-tool" not in await listed("createInvoice")
    assert "get_weather_forecast" in (await answered("search-tools", query="Will it rain?", limit=1))[0]
    assert "Price in euros." in (await answered("describe-tools", names=["createInvoice"]))[0]
    call = {"name": "createInvoice", "arguments": {"customer": "Ann", "amount": 5}}
    assert await answered("call-tool", **call) == ("Ann pays 5.", "createInvoice")
    assert "amount" in (await answered("call-tool", name="createInvoice", arguments={"customer": "Ann"}))[0]


async def test_the_instructions_tell_of_it(api: httpx.AsyncClient) -> None:
    told = (await Wire(api, MODERN, "?tools=dev").request("server/discover"))["instructions"]
    assert "search-tools" in told
    assert (
        "search-tools"
        not in (await Wire(api, MODERN, "?tools=createInvoice").request("server/discover"))["instructions"]
    )


async def test_a_connection_with_few_tools_lists_them(api: httpx.AsyncClient) -> None:
    wire = await connected(api, LEGACY, "?tools=createInvoice")
    listed = {one["name"] for one in (await wire.request("tools/list", {}))["tools"]}
    assert "createInvoice" in listed
    assert not listed & DISCOVERY


async def test_what_is_wrong_is_explained(api: httpx.AsyncClient) -> None:
    wire = await connected(api, LEGACY)
    assert "call-tool" in text_of(await call(wire, "call-tool", arguments={}))
    assert "cannot call itself" in text_of(await call(wire, "call-tool", name="call-tool", arguments={"name": "x"}))
    wrong = await call(wire, "call-tool", name="createInvoice", arguments={"customer": "Ann"})
    assert wrong["isError"]
    assert "amount" in text_of(wrong)
    unknown = await call(wire, "describe-tools", names=["createInvoce"])
    assert "createInvoice" in text_of(unknown)
    assert await found(wire, "???") == []
    assert await found(wire, '"name:*" OR -') == await found(wire, "name")
    for query in ("", "x" * 2_000):
        assert (await call(wire, "search-tools", query=query))["isError"]


async def test_searches_run_side_by_side(api: httpx.AsyncClient) -> None:
    wires = [await connected(api, LEGACY) for _ in range(3)]
    answers = await asyncio.gather(*(found(wire, "bill a customer") for wire in wires for _ in range(10)))
    assert {json.dumps(names) for names in answers} == {json.dumps(["createInvoice"])}


def test_the_operators_own_tool_of_the_same_name_stays_one() -> None:
    own = replace(get_weather_forecast.definition, name="call-tool")
    few, many = [own], [own, *(replace(own, name=f"sensor_{number}") for number in range(50))]
    for tools in (few, many):
        offered = with_discovery(tool_set("default", tools), limit=40)
        assert not has_discovery(offered)
        assert listed(offered).tools.keys() == {one.name for one in tools}
