"""Actors that are MCP servers: a real one, in a process of its own behind the sandbox, through the whole service."""

import json
import runpy
from decimal import Decimal
from typing import Any

import httpx
import pytest
from pydantic import SecretStr

from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.mcp_servers.activities import fetch_mcp_tools
from outlast.activities.mcp_servers.contracts import McpAnswer
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.secrets import SecretSealer
from outlast.activities.spending.contracts import Settlement, Spend
from outlast.activities.spending.ledger import Ledgers
from outlast.api.catalog.catalog import Catalogue
from outlast.api.catalog.mcp_results import call_result
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.tools.core.actor_mcp import as_tool_result, proxied_tools
from outlast.workflows.tools.core.actor_names import proxied_tool_name
from outlast.workflows.tools.framework.selection import Selection
from tests.integration.tools.conftest import ToolCaller
from tests.support.eventually import eventually
from tests.support.http.api_client import bearer
from tests.support.http.mcp_wire import MODERN, Wire, text_of
from tests.support.paths import TEST_ACTORS
from tests.support.stacks.api_server import api_settings, connect, serving_api
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service

EVERYTHING: dict[str, Any] = runpy.run_path(str(TEST_ACTORS / "toolbox" / "answers.py"))["EVERYTHING"]

TOOLBOX = "outlast/toolbox"
LONG_NAMED = "outlast/an-actor-whose-name-is-longer-than-names-of-tools-may-be"
POOR = "poor-key-0123456789"
TOOL_NAMES = ["show", "count.calls", "fail", "crash", "whoami", "ask", "complete"]
EXPECTED_NAMES = [proxied_tool_name(TOOLBOX, name) for name in TOOL_NAMES]


async def ask(http: httpx.AsyncClient, tool: str, *, mode: str = "default", **run_input: Any) -> dict[str, Any]:
    arguments = {"actor": f"{TOOLBOX}:{tool}", "input": run_input}
    answer = await http.post("/v1/tools/call-actor/call", json={"mode": mode, "arguments": arguments})
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]


async def test_an_answer_is_passed_on_value_for_value(http: httpx.AsyncClient) -> None:
    result = await ask(http, "show", mode="openai")
    assert result["raw_content"] == EVERYTHING["content"]
    assert result["structured"] == EVERYTHING["structuredContent"]
    assert not result["is_error"]
    assert result["meta"].items() >= EVERYTHING["_meta"].items()
    outside_the_ui_mode = (await ask(http, "show"))["meta"]
    assert outside_the_ui_mode["toolbox/cost"] == 0.25
    assert not any(key.startswith("openai/") for key in outside_the_ui_mode)


def test_the_front_door_strips_ui_keys_and_nothing_else() -> None:
    answer = McpAnswer(
        content=EVERYTHING["content"], structured=EVERYTHING["structuredContent"], meta=EVERYTHING["_meta"]
    )
    wire = call_result(as_tool_result(answer, tool_name="call-actor"), mode="default")
    assert wire == {**EVERYTHING, "_meta": {"toolbox/cost": 0.25}}
    assert call_result(as_tool_result(answer, tool_name="call-actor"), mode="openai") == EVERYTHING


async def test_a_server_is_added_under_the_names_of_its_tools(http: httpx.AsyncClient) -> None:
    wire = Wire(http, MODERN, "?tools=experimental")
    answer = await wire.request("tools/call", {"name": "add-actor", "arguments": {"actor": TOOLBOX}})
    assert "their names begin with outlast--toolbox" in text_of(answer)
    assert {tool["name"] for tool in (await wire.request("tools/list"))["tools"]} >= set(EXPECTED_NAMES)


async def test_the_log_counts_the_tools_of_each_server(http: httpx.AsyncClient, service: Service) -> None:
    selected = ["docs", "outlast/sleeper", TOOLBOX, "nobody/gone"]
    await Wire(http, MODERN, f"?tools={','.join(selected)}").request("tools/list")

    def logged() -> bool:
        lines = [json.loads(line) for line in service.api.log.read_text().splitlines() if line.startswith("{")]
        told = [line for line in lines if line["event"] == "tools listed" and line["selected"] == selected]
        return any(line["actors"] == 1 and line["mcp_servers"] == {TOOLBOX: 7} for line in told)

    await eventually(logged)


async def test_a_payment_that_cannot_pay_a_server_is_refused(http: httpx.AsyncClient) -> None:
    wire = Wire(http, MODERN, f"?tools=call-actor,experimental,{TOOLBOX}&payment=skyfire")
    listed = {tool["name"] for tool in (await wire.request("tools/list"))["tools"]}
    assert "call-actor" in listed
    assert listed.isdisjoint(EXPECTED_NAMES)
    assert TOOLBOX in (await wire.request("server/discover"))["instructions"]
    before = (await ask(http, "count.calls", times=1))["structured"]["calls"]
    arguments = {"actor": f"{TOOLBOX}:count.calls", "input": {"times": 1}, "skyfire-pay-id": "a-token"}
    refused = await wire.request("tools/call", {"name": "call-actor", "arguments": arguments})
    assert refused["_meta"]["outlast/error"]["category"] == "payment"
    added = await wire.request("tools/call", {"name": "add-actor", "arguments": {"actor": TOOLBOX}})
    assert added["isError"]
    assert (await ask(http, "count.calls", times=1))["structured"]["calls"] == before + 1


@pytest.mark.parametrize("payment", ["skyfire", "x402"])
async def test_an_actor_in_standby_is_paid_by_no_call(http: httpx.AsyncClient, payment: str) -> None:
    """Whoever has not paid is told that, and not to pay: no payment would help."""
    wire = Wire(http, MODERN, f"?mode=apify&tools=call-actor,{TOOLBOX}&payment={payment}")
    assert {tool["name"] for tool in (await wire.request("tools/list"))["tools"]}.isdisjoint(EXPECTED_NAMES)
    for actor in (TOOLBOX, f"{TOOLBOX}:count.calls"):
        call = {"name": "call-actor", "arguments": {"actor": actor, "input": {}}}
        refused = await wire.request("tools/call", call)
        assert refused["isError"]
        assert text_of(refused).startswith(f'Actor "{TOOLBOX}" is a standby Actor')
        assert "structuredContent" not in refused


async def test_a_caller_whose_cap_is_used_up_calls_no_server(http: httpx.AsyncClient, service: Service) -> None:
    """The platform charges standby without a run, so nothing can be reserved; but nothing is begun without money."""
    temporal = await connect(service.temporal_address)
    settings = api_settings(service.sandbox, api_keys=f"poor:{POOR}", spending={"per_day_usd": 0.05})
    async with serving_api(temporal, settings) as api:
        api.headers.update(bearer(POOR))
        before = (await ask(api, "count.calls", times=1))["structured"]["calls"]
        spent = Settlement(spend=Spend(entry_id="all"), cost_usd=Decimal("0.05"))
        await Ledgers(temporal, task_queue=TOOLS_TASK_QUEUE).settle(Caller(id="key:poor"), spent)
        refused = await ask(api, "count.calls", times=1)
        assert (refused["error"]["category"], refused["error"]["retryable"]) == ("payment", False)
        assert "of the daily cap of 0.05 US dollars 0.00 are left" in refused["error"]["message"]
    assert (await ask(http, "count.calls", times=1))["structured"]["calls"] == before + 1


async def test_the_servers_own_error_is_an_error_in_its_own_words(http: httpx.AsyncClient) -> None:
    result = await ask(http, "fail")
    assert result["is_error"]
    assert result["raw_content"] == [{"type": "text", "text": "No such page"}]
    assert result["error"]["message"] == "No such page"
    assert result["structured"] == {}, "call-actor promises a structured answer"


async def test_an_answer_that_is_too_large_says_so_and_one_of_many_values_is_stored(http: httpx.AsyncClient) -> None:
    refused = await ask(http, "count.calls", times=1, characters=1_600_000)
    assert refused["is_error"]
    assert "at most 1,500,000 are supported" in refused["error"]["message"]
    stored = await ask(http, "count.calls", times=1, rows=300_000)
    assert not stored["is_error"]
    assert "rows: [300000 of object of 0]" in stored["structured"]["summary"]


async def test_arguments_arrive_and_a_tool_is_called_once(http: httpx.AsyncClient) -> None:
    first = (await ask(http, "count.calls", times=1, text="ü"))["structured"]
    second = (await ask(http, "count.calls", times=2))["structured"]
    assert first["arguments"] == {"times": 1, "text": "ü"}
    assert second["calls"] == first["calls"] + 1


async def test_a_call_whose_answer_is_lost_is_not_repeated(http: httpx.AsyncClient) -> None:
    result = await ask(http, "crash")
    assert result["is_error"]
    assert result["error"]["retryable"] is False
    assert "was lost" in result["error"]["message"]
    after = await ask(http, "count.calls", times=1)
    assert after["structured"]["calls"] == 1, "the Actor is started again for the next call, which is its first"


async def test_the_actor_never_sees_the_callers_token(http: httpx.AsyncClient, sandbox: Sandbox) -> None:
    seen = (await ask(http, "whoami"))["structured"]
    assert seen["APIFY_TOKEN"] != sandbox.token
    assert seen["APIFY_META_ORIGIN"] == "STANDBY"


async def test_an_unknown_tool_and_an_actor_that_is_no_server_are_explained(
    http: httpx.AsyncClient, call: ToolCaller
) -> None:
    assert (await ask(http, "nothing"))["is_error"]
    answer = await call("call-actor", actor="outlast/sleeper:nap")
    assert answer.error is not None
    assert answer.error["category"] == "validation"
    assert "is not an MCP server" in answer.error["message"]
    missing = await call("call-actor", actor="nobody/nothing:x")
    assert missing.error is not None
    assert missing.error["category"] == "not_found"


async def test_details_name_the_servers_tools_when_asked(call: ToolCaller) -> None:
    lean = await call("fetch-actor-details", actor=TOOLBOX)
    assert lean.structured["isMcpServer"] is True
    assert "mcpTools" not in lean.structured
    assert f"`{TOOLBOX}:tool`" in lean.text
    full = await call("fetch-actor-details", actor=TOOLBOX, output={"mcpTools": True})
    names = [tool["name"] for tool in full.structured["mcpTools"]]
    assert names == TOOL_NAMES


@pytest.fixture
def apify(sandbox: Sandbox) -> ApifyPlatform:
    sealer = SecretSealer.ephemeral()
    return ApifyPlatform(api_base_url=sandbox.url, operator_token=SecretStr(sandbox.token), sealer=sealer)


async def test_its_tools_become_tools_of_a_connection(apify: ApifyPlatform) -> None:
    listed = await fetch_mcp_tools(apify, Caller(id="local"), TOOLBOX)
    tools = {tool.name: tool for tool in proxied_tools(TOOLBOX, listed.tools)}
    show, counted = (
        tools["outlast--toolbox-show"],
        next(t for t in tools.values() if t.actor == f"{TOOLBOX}:count.calls"),
    )
    assert counted.name.startswith("outlast--toolbox-count-calls-"), (
        "a dot is not for every client, so a digest follows"
    )
    assert (show.annotations.title, show.annotations.read_only) == ("Show everything", True)
    assert show.meta == {}, "no widget of theirs"
    assert counted.input_schema["required"] == ["times"]
    assert counted.output_schema == {"type": "object"}
    assert not any(tool.calls_actor for tool in tools.values())


async def test_an_actor_that_is_no_server_has_no_tools(apify: ApifyPlatform) -> None:
    with pytest.raises(ToolFailure, match="is not an MCP server"):
        await fetch_mcp_tools(apify, Caller(id="local"), "outlast/sleeper")


async def test_a_proxied_tool_is_called_by_its_own_name(http: httpx.AsyncClient) -> None:
    answer = await http.post("/v1/tools/outlast--toolbox-fail/call", json={"arguments": {"any": "thing"}})
    result = answer.raise_for_status().json()["result"]
    assert result["raw_content"] == [{"type": "text", "text": "No such page"}]
    assert "structured" not in result or result["structured"] is None, "nothing is added to what the server says"
    wrong = await http.post("/v1/tools/outlast--toolbox-paint/call", json={"arguments": {}})
    assert wrong.status_code == 404
    counted = next(t for t in EXPECTED_NAMES if t.startswith("outlast--toolbox-count-calls"))
    refused = await http.post(f"/v1/tools/{counted}/call", json={"arguments": {"times": "many"}})
    assert refused.status_code == 422, "its arguments are checked against its own schema"


async def test_the_mode_apify_has_them_under_the_names_of_apifys_server(http: httpx.AsyncClient) -> None:
    wire = Wire(http, MODERN, f"?mode=apify&tools={TOOLBOX}")
    listed = {tool["name"] for tool in (await wire.request("tools/list"))["tools"]}
    assert listed == {f"outlast--toolbox--{name}" for name in TOOL_NAMES}
    answer = await wire.request("tools/call", {"name": "outlast--toolbox--fail", "arguments": {}})
    assert (answer["isError"], text_of(answer)) == (True, "No such page")
    # And over REST, where nothing is listed first.
    body = {"mode": "apify", "arguments": {}}
    first = await http.post("/v1/tools/outlast--toolbox--show/call", json=body)
    assert first.raise_for_status().json()["result"]["raw_content"] == EVERYTHING["content"]


async def test_the_tool_of_an_actor_with_a_long_name_is_called(http: httpx.AsyncClient) -> None:
    """Its name is cut, and does not say which Actor it is."""
    for mode in ("default", "apify"):
        wire = Wire(http, MODERN, f"?mode={mode}&tools={LONG_NAMED}")
        (name,) = [tool["name"] for tool in (await wire.request("tools/list"))["tools"] if "--" in tool["name"]]
        assert len(name) == 64
        answer = await wire.request("tools/call", {"name": name, "arguments": {}})
        assert answer["structuredContent"]["status"] == "SUCCEEDED"


async def test_a_connection_may_choose_the_actor_and_gets_its_tools(apify: ApifyPlatform) -> None:
    catalogue = Catalogue(apify, actors=())
    chosen = Selection(selectors=("runs", TOOLBOX, "nobody/nothing"))
    loaded = await catalogue.load(chosen, Caller(id="local"))
    assert [name for name in loaded.tools if name.startswith("outlast--")] == EXPECTED_NAMES
    assert loaded.missing_actors == ("nobody/nothing",)
    assert "get-actor-output" not in loaded.tools, "no run is started, so no companion is needed"
