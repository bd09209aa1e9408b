"""A server with the operator's tools alone: OUTLAST_BUILTIN_TOOLS=off, at every entry point."""

import httpx
import pytest

from outlast.client import AsyncClient
from tests.support.calls.tasks import completed
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError
from tests.support.stacks.fixtures import http_fixture, service_fixture

service = service_fixture(
    scope="module",
    tools=["tests.support.tools.function_tools"],
    settings={"OUTLAST_BUILTIN_TOOLS": "off", "OUTLAST_DEFAULT_TOOLS": "actors,docs,dev"},
)
api = http_fixture()
OWN = {"weather", "nap", "flaky", "fetched", "transfer", "blocks", "quick", "rates"}
COLLECT = {"get-task", "list-tasks", "cancel-task", "answer-task", "restore-tool-output"}


async def connected(api: httpx.AsyncClient, revision: str, query: str) -> Wire:
    wire = Wire(api, revision, query)
    if revision == LEGACY:
        await wire.initialize()
    return wire


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("query", ["", "?mode=openai", "?tools=weather,call-actor,actors&actors=outlast/sleeper"])
async def test_mcp_lists_own_tools_and_those_that_collect_their_results(
    api: httpx.AsyncClient, revision: str, query: str
) -> None:
    wire = await connected(api, revision, query)
    own = {"weather"} if "weather" in query else OWN
    assert {one["name"] for one in (await wire.request("tools/list", {}))["tools"]} == own | COLLECT
    answer = await wire.request("tools/call", {"name": "weather", "arguments": {"city": "Prague"}})
    assert answer["structuredContent"] == {"city": "Prague", "degrees": [20]}
    for name in ("call-actor", "outlast--sleeper"):
        with pytest.raises(WireError, match="-32602"):
            await wire.request("tools/call", {"name": name, "arguments": {}})


async def test_rest_the_client_and_adapters_have_no_others(api: httpx.AsyncClient) -> None:
    listed = {one["name"] for one in (await api.get("/v1/tools")).json()["tools"]}
    assert listed == OWN | {"restore-tool-output"}
    for name in ("call-actor", "search-actors", "outlast--sleeper", "add-actor"):
        assert (await api.get(f"/v1/tools/{name}")).status_code == 404
        assert (await api.post(f"/v1/tools/{name}/call", json={"arguments": {}})).status_code == 404
        assert (await api.post("/v1/tasks", json={"tool": name, "arguments": {}})).status_code == 404
    shown = (await api.get("/v1/adapters/anthropic/tools")).text
    assert "weather" in shown
    assert "search-actors" not in shown
    async with AsyncClient(str(api.base_url)) as client:
        assert {tool.name for tool in await client.tools()} == listed
    answer = await completed(api, {"tool": "weather", "arguments": {"city": "Brno"}})
    assert answer["result"]["structured"] == {"city": "Brno", "degrees": [20]}


async def test_a_refusal_names_the_setting(api: httpx.AsyncClient) -> None:
    wire = await connected(api, LEGACY, "")
    for name in ("call-actor", "get-actor-run-log", "outlast--sleeper"):
        with pytest.raises(WireError, match=r"does not offer .* OUTLAST_BUILTIN_TOOLS"):
            await wire.request("tools/call", {"name": name, "arguments": {}})
    refused = await api.post("/v1/tools/call-actor/call", json={"arguments": {}})
    assert "OUTLAST_BUILTIN_TOOLS" in refused.text
    with pytest.raises(WireError, match="There is no tool 'no_such_tool'"):
        await wire.request("tools/call", {"name": "no_such_tool", "arguments": {}})
