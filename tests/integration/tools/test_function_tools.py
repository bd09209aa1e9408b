"""Typed functions under `@tool`, called from every entry point of a server that loads their module."""

import re
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx
import pytest
from temporalio.client import Client

from outlast.client import AsyncClient
from outlast.workflows.contracts.tool_calls import ToolCall
from tests.support.calls.questions import taken, waiting
from tests.support.calls.tasks import completed, result_of, started
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, text_of
from tests.support.http.pages import serving_pages
from tests.support.stacks.fixtures import http_fixture, service_fixture, temporal_fixture
from tests.support.stacks.service import Service

service = service_fixture(scope="module", tools=["tests.support.tools.function_tools"])
api = http_fixture()
temporal = temporal_fixture()
OWN = {"weather", "nap", "flaky", "fetched", "transfer", "blocks", "quick"}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"tool": name, "arguments": arguments}


def attempts_in(folder: Path) -> int:
    return len(list(folder.iterdir()))


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
@pytest.mark.parametrize("query", ["", "?mode=openai"])
async def test_mcp_lists_loaded_tools_by_default_and_calls_them(
    api: httpx.AsyncClient, revision: str, query: str
) -> None:
    wire = Wire(api, revision, query)
    if revision == LEGACY:
        await wire.initialize()
    listed = {one["name"]: one for one in (await wire.request("tools/list", {}))["tools"]}
    assert set(listed) >= OWN | {"get-task", "restore-tool-output"}
    assert listed["weather"]["description"] == "Weather forecast for a city."
    assert listed["weather"]["annotations"]["readOnlyHint"] is True
    answer = await wire.request("tools/call", {"name": "weather", "arguments": {"city": "Prague", "days": 2}})
    assert answer["structuredContent"] == {"city": "Prague", "degrees": [20, 20]}


async def test_a_connection_that_selects_one_tool_can_collect_its_result(api: httpx.AsyncClient) -> None:
    wire = Wire(api, LEGACY, "?tools=nap")
    await wire.initialize()
    names = {one["name"] for one in (await wire.request("tools/list", {}))["tools"]}
    assert names >= {"nap", "get-task", "cancel-task"}
    assert "weather" not in names


@pytest.mark.parametrize("mode", ["default", "apify"])
async def test_tags_are_listed_and_select_tools(api: httpx.AsyncClient, mode: str) -> None:
    wire = Wire(api, LEGACY, f"?mode={mode}&tools=tag:outdoors")
    await wire.initialize()
    listed = {one["name"]: one for one in (await wire.request("tools/list", {}))["tools"]}
    assert (listed.keys() & (OWN | {"rates"})) == {"weather", "rates"}
    assert listed["rates"]["_meta"] == {"outlast/tags": ["outdoors", "money"]}
    tools = {one["name"]: one for one in (await api.get("/v1/tools")).json()["tools"]}
    assert (tools["rates"]["tags"], tools["nap"]["tags"]) == (["outdoors", "money"], [])
    adapter = await api.get("/v1/adapters/anthropic/tools", params={"tools": "tag:money"})
    assert "rates" in adapter.text
    assert "weather" not in adapter.text
    for address in ("/v1/adapters/anthropic/tools?tools=tag:mony", f"/mcp?mode={mode}&tools=tag:mony"):
        refused = await (api.get(address) if "adapters" in address else api.post(address, json={}))
        assert (refused.status_code, "did you mean 'tag:money'?" in refused.text) == (400, True)


async def test_rest_adapters_and_the_client_have_it(api: httpx.AsyncClient) -> None:
    answer = await completed(api, call("weather", city="Prague"))
    assert answer["result"]["structured"] == {"city": "Prague", "degrees": [20]}
    wrong = await api.post("/v1/tasks", json=call("weather", city="Prague", dayz=2))
    assert wrong.status_code == 422
    assert "dayz" in wrong.text
    assert "days" in wrong.text
    tools = (await api.get("/v1/adapters/anthropic/tools")).json()
    assert "weather" in str(tools)
    async with AsyncClient(str(api.base_url)) as client:
        assert (await client.call("weather", {"city": "Prague"})).structured == {"city": "Prague", "degrees": [20]}


async def test_a_call_has_the_reuse_of_its_tool_where_the_caller_gives_none(api: httpx.AsyncClient) -> None:
    first = await completed(api, call("rates", currency="CHF"))
    again = await completed(api, call("rates", currency="CHF"))
    assert again["task"]["id"] == first["task"]["id"]
    assert again["task"]["reused"]
    refreshed = await completed(api, call("rates", currency="CHF") | {"options": {"reuse": {"refresh": True}}})
    assert refreshed["task"]["id"] != first["task"]["id"]
    assert (await completed(api, call("rates", currency="SEK")))["task"]["id"] != first["task"]["id"]


@pytest.mark.parametrize(("asked", "limit"), [(None, "0.5"), (0.25, "0.25"), (0.75, "0.5")])
async def test_the_budget_of_a_tool_limits_the_cost_of_its_calls(
    api: httpx.AsyncClient, temporal: Client, asked: float | None, limit: str
) -> None:
    options = {"reuse": {"refresh": True}} | ({"budget": {"max_total_charge_usd": asked}} if asked else {})
    task = (await completed(api, call("rates", currency="CHF") | {"options": options}))["task"]
    history = temporal.get_workflow_handle(task["id"]).fetch_history_events()
    payloads = (await anext(history)).workflow_execution_started_event_attributes.input.payloads
    [recorded] = await temporal.data_converter.decode(payloads, [ToolCall])
    assert recorded.options.budget.max_total_charge_usd == Decimal(limit)


async def test_blocking_functions_stall_neither_each_other_nor_other_tools(api: httpx.AsyncClient) -> None:
    """With one thread of an event loop, the naps would take as long as all of them together."""
    naps = [await started(api, call("nap", seconds=20)) for _ in range(8)]

    async def sleeps() -> bool:
        task = (await api.get(f"/v1/tasks/{naps[-1]}")).json()
        return (task.get("progress") or {}).get("message") == "Sleeping"

    await eventually(sleeps)
    await completed(api, call("weather", city="Prague"))
    states = [(await api.get(f"/v1/tasks/{nap}")).json()["status"] for nap in naps]
    assert "working" in states
    for nap in naps:
        await result_of(api, nap)


async def test_a_function_that_blocks_its_event_loop_is_named_and_stalls_no_other_kind(
    api: httpx.AsyncClient, service: Service
) -> None:
    blocking = await started(api, call("blocks", seconds=30))

    async def is_told() -> bool:
        task = (await api.get(f"/v1/tasks/{blocking}")).json()
        return "blocks the event loop" in ((task.get("progress") or {}).get("message") or "")

    await eventually(is_told)
    await completed(api, call("weather", city="Prague"))
    assert (await api.get(f"/v1/tasks/{blocking}")).json()["status"] == "working"
    waiting = await started(api, call("quick"))
    assert text_of((await result_of(api, waiting))["result"]) == "Here."
    async with httpx.AsyncClient() as http:
        metrics = (await http.get(service.worker_metrics_url)).text
    assert re.search(r'outlast_blocked_function_loops_total\{[^}]*tool="blocks"', metrics)
    log = (service.folder / "worker.log").read_text()
    assert "blocks has blocked the event loop" in log
    assert "time.sleep(seconds)" in log


@pytest.mark.parametrize(("error", "attempts"), [("busy", 3), ("broken", 1), ("value", 1)])
async def test_the_options_decide_what_is_retried(
    api: httpx.AsyncClient, tmp_path: Path, error: str, attempts: int
) -> None:
    answer = await completed(api, call("flaky", folder=str(tmp_path), error=error))
    assert attempts_in(tmp_path) == attempts
    if error == "busy":
        assert answer["result"]["structured"] == {"result": 3}
    else:
        assert answer["task"]["status"] == "failed"


@pytest.fixture(scope="module")
def pages() -> Iterator[str]:
    with serving_pages() as server:
        yield server.url


async def test_a_page_that_is_not_there_is_not_asked_for_again(
    api: httpx.AsyncClient, tmp_path: Path, pages: str
) -> None:
    answer = await completed(api, call("fetched", folder=str(tmp_path), url=f"{pages}/nothing-here"))
    assert answer["task"]["status"] == "failed"
    assert attempts_in(tmp_path) == 1


async def test_an_approval_is_asked_for_where_the_function_says_so(api: httpx.AsyncClient) -> None:
    answer = await completed(api, call("transfer", amount=5))
    assert text_of(answer["result"]) == "Transferred 5."
    task = await waiting(api, call("transfer", amount=500))
    await taken(api, task, {"decision": "yes"})
    assert text_of((await result_of(api, task["id"]))["result"]) == "Transferred 500."
