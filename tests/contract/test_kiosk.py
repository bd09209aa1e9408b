"""What a mode may bring beside its executor is asked of a module of another package, too: the one of `kiosk_mode`."""

import sys
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client

from tests.contract.kiosk_mode import NAME
from tests.contract.kiosk_mode.coins import COIN
from tests.contract.kiosk_mode.window import PAGE, PRICES
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire, WireError, text_of
from tests.support.paths import ROOT
from tests.support.stacks.service import Service, settings_environment
from tests.support.x402_wallet import Wallet, header_of

OF_OTHER_PACKAGES = {"labelled", "pick_colour"}
SHOWS_APPS = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}
SHORT = {"seconds": 0.1, "steps": 1, "rows": 3}
LARGE_BYTES = 300_000


def kiosk(http: httpx.AsyncClient, query: str = "", revision: str = MODERN) -> Wire:
    return Wire(http, revision, f"?mode={NAME}{query}")


async def listed(wire: Wire, capabilities: dict[str, Any] | None = None) -> dict[str, dict[str, Any]]:
    answer = await wire.request("tools/list", capabilities=capabilities)
    return {tool["name"]: tool for tool in answer["tools"]}


async def called(wire: Wire, tool: str, arguments: dict[str, Any], **meta: Any) -> dict[str, Any]:
    return await wire.request("tools/call", {"name": tool, "arguments": arguments, "_meta": meta})


async def test_connections_choose_by_the_rules_of_the_mode(http: httpx.AsyncClient) -> None:
    every = await listed(kiosk(http, "&tools=docs"))
    own = {"call-actor", "get-key-value-store-record", "get-dataset-items"}
    assert list(every) == sorted(own | OF_OTHER_PACKAGES, reverse=True), "of the common tools it has what it shares"
    # The companion comes along, and another selector than its own says nothing.
    assert list(await listed(kiosk(http, "&shelf=call-actor&tools=runs"))) == ["get-dataset-items", "call-actor"]
    refused = await http.post(f"/mcp?mode={NAME}&shelf=sunday", json={})
    assert (refused.status_code, "closed on Sundays" in refused.text) == (400, True)
    with pytest.raises(WireError, match=r"has no tool 'get-dataset'.*mode=default"):
        await called(kiosk(http), "get-dataset", {"datasetId": "x"})
    assert (await http.post("/v1/tools/get-dataset/call", json={"mode": NAME})).status_code == 404


async def test_its_own_parameters_count_over_stdio(service: Service, tmp_path: Path) -> None:
    """There the server's mode is its own: a variable of the environment stands for `shelf`, and `ui` is no mode."""
    environment = settings_environment(
        service.temporal_address,
        service.sandbox,
        OUTLAST_DATA_DIR=str(tmp_path),
        OUTLAST_TOOLS_FROM="tests.contract.kiosk_mode",
        OUTLAST_MODE=NAME,
        KIOSK_SHELF="look",
    )
    command = ["-m", "tests.support.http.stdio_server", "ui=window"]
    server = StdioServerParameters(command=sys.executable, args=command, env=environment, cwd=ROOT)
    async with Client(stdio_client(server)) as mcp:
        assert [tool.name for tool in (await mcp.list_tools()).tools] == ["look", "get-dataset-items"]


async def test_the_tool_of_an_actor_is_its_own(http: httpx.AsyncClient, service: Service) -> None:
    wire = kiosk(http, "&shelf=outlast/sleeper,outlast/heavy,outlast/plain-standby")
    tools = await listed(wire)
    assert set(tools) == {"buy_sleeper", "buy_heavy", "get-dataset-items"}, "what only serves requests is not run"
    assert tools["buy_sleeper"]["description"].startswith("Buy one row: ")
    assert tools["buy_heavy"]["icons"][0]["src"] == "https://images.example.com/heavy.png"
    bought = (await called(wire, "buy_sleeper", {**SHORT, "waitSecs": 90}))["structuredContent"]
    assert (bought["status"], len(bought["items"])) == ("SUCCEEDED", 1), "what carries it out is its own, too"
    heavy = (await called(wire, "buy_heavy", {"waitSecs": 90}))["structuredContent"]
    assert service.sandbox.run(heavy["runId"])["options"]["memoryMbytes"] == 4_096
    refused = await called(kiosk(http), "call-actor", {"actor": "outlast/plain-standby", "input": {}})
    assert "runs in standby mode without an MCP server" in text_of(refused)
    failed = await called(kiosk(http), "get-dataset-items", {"datasetId": "absent"})
    for tool, answer in (("call-actor", refused), ("get-dataset-items", failed)):
        assert text_of(answer).endswith(f"{tool} is sold out; there are 5 wares."), "errors are told in its words"


async def test_the_wait_is_its_own(http: httpx.AsyncClient) -> None:
    wire = kiosk(http, "&shelf=call-actor,outlast/many-fields,outlast/toolbox")
    tools = await listed(wire)
    properties = {name: tool["inputSchema"].get("properties", {}) for name, tool in tools.items()}
    argument = {"type": "integer", "minimum": 0, "maximum": 90, "default": 0}
    argument["description"] = "How long to stand at the kiosk."
    assert properties["call-actor"]["waitSecs"] == argument
    assert properties["buy_many-fields"]["waitSecs"] == argument, "in place of the Actor's own field"
    assert "waitSecs" not in properties["show.at.toolbox"]
    run = {"actor": "outlast/sleeper", "input": {"seconds": 40, "steps": 10}}
    working = await called(wire, "call-actor", run)
    task_id = working["_meta"]["outlast/taskId"]
    assert (await http.get(f"/v1/tasks/{task_id}")).json()["status"] == "working", text_of(working)
    assert (await http.post(f"/v1/tasks/{task_id}/cancel")).status_code == 202


@pytest.mark.parametrize("revision", [LEGACY, MODERN])
async def test_tools_of_servers_have_its_names(http: httpx.AsyncClient, revision: str) -> None:
    wire = kiosk(http, "&shelf=outlast/toolbox", revision)
    if revision == LEGACY:
        await wire.initialize()
    assert {"show.at.toolbox", "count.calls.at.toolbox"} <= (await listed(wire)).keys()
    counted = await called(wire, "count.calls.at.toolbox", {"times": 1})
    assert not counted["isError"], text_of(counted)


async def test_addresses_of_the_platform_are_its_resources(http: httpx.AsyncClient, service: Service) -> None:
    wire, default = kiosk(http), Wire(http, MODERN, "?mode=default")
    run = await called(wire, "call-actor", {"actor": "outlast/sleeper", "input": SHORT, "waitSecs": 90})
    store = run["structuredContent"]["storages"]["keyValueStores"]["default"]["id"]
    root = f"{service.sandbox.url}/v2"
    record = f"{root}/key-value-stores/{store}/records/large"
    token = {"Authorization": f"Bearer {service.sandbox.token}", "Content-Type": "application/octet-stream"}
    content = b"\0\1" * (LARGE_BYTES // 2)
    async with httpx.AsyncClient(trust_env=False, timeout=180) as platform:
        (await platform.put(record, content=content, headers=token)).raise_for_status()
        templates = {each["name"] for each in (await wire.request("resources/templates/list"))["resourceTemplates"]}
        assert "ware" in templates
        small = await wire.request("resources/read", {"uri": record.replace("large", "INPUT")})
        assert '"rows"' in small["contents"][0]["text"]
        note = (await wire.request("resources/read", {"uri": record}))["contents"][0]["text"]
        link_read = next(word for word in note.split() if word.startswith(record)).rstrip(".")
        answer = await called(wire, "get-key-value-store-record", {"keyValueStoreId": store, "recordKey": "large"})
        (link,) = [block["uri"] for block in answer["content"] if block["type"] == "resource_link"]
        for signed in (link, link_read):
            assert (await platform.get(signed)).content == content, "whoever has the link may read it"
    for other in (f"{root}/users/me", f"{root}/datasets/x/items", f"{root}/actor-runs/x"):
        with pytest.raises(WireError, match="storages, runs and logs are resources here"):
            await wire.request("resources/read", {"uri": other})
    with pytest.raises(WireError, match="There is no resource"):
        await default.request("resources/read", {"uri": record})
    for method, name, said in (
        ("resources/read", {"uri": "kiosk://x"}, "The kiosk has no kiosk://x."),
        ("prompts/get", {"name": "x"}, "The kiosk has no words for 'x'."),
    ):
        with pytest.raises(WireError, match=said):
            await wire.request(method, name)
        with pytest.raises(WireError, match="There is no "):
            await default.request(method, name)


async def test_the_window_is_for_those_who_see_it(http: httpx.AsyncClient) -> None:
    by_query, by_client, blind = kiosk(http, "&ui=window"), kiosk(http), kiosk(http)
    for wire, capabilities in ((by_query, None), (by_client, SHOWS_APPS)):
        tools = await listed(wire, capabilities)
        assert {tools[name]["_meta"]["openai/outputTemplate"] for name in ("look", "labelled")} == {
            PAGE,
            "ui://planted",
        }
        resources = (await wire.request("resources/list", capabilities=capabilities))["resources"]
        (page,) = [each for each in resources if each["uri"] == PAGE]
        assert page["_meta"] == {"openai/outputTemplate": PAGE}
        read = [
            (await wire.request("resources/read", {"uri": uri}, capabilities=capabilities))["contents"][0]["text"]
            for uri in (PAGE, "ui://kiosk/other")
        ]
        assert read == ["<p>Wares</p>", "The window is empty."]
    assert "look" not in await listed(blind)
    assert PAGE not in {each["uri"] for each in (await blind.request("resources/list"))["resources"]}
    for uri in (PAGE, "ui://kiosk/other"):
        with pytest.raises(WireError, match="The kiosk has no "):
            await blind.request("resources/read", {"uri": uri})


async def test_its_own_payment_pays(http: httpx.AsyncClient, service: Service) -> None:
    wire, wallet = kiosk(http, "&payment=coins&shelf=call-actor,outlast/toolbox"), Wallet()
    tools = await listed(wire)
    assert set(tools) == {"call-actor", "get-dataset-items"}, "what coins cannot pay is not offered"
    assert tools["call-actor"]["_meta"]["kiosk/price"]["accepts"], "the platform's terms of today"
    arguments = {"actor": "outlast/sleeper", "input": SHORT, "waitSecs": 90}
    starts = service.sandbox.counters["startsAccepted"]
    unpaid = await called(wire, "call-actor", arguments)
    assert (unpaid["isError"], unpaid["_meta"]["outlast/error"]["category"]) == (True, "payment")
    assert text_of(unpaid).startswith("Insert a coin.")
    assert service.sandbox.counters["startsAccepted"] == starts
    paid = [await called(wire, "call-actor", arguments, **{COIN: header_of(wallet.payment())})]
    header = {"PAYMENT-SIGNATURE": header_of(wallet.payment())}
    paid.append(await wire.request("tools/call", {"name": "call-actor", "arguments": arguments}, headers=header))
    assert [len(answer["structuredContent"].get("items", ())) for answer in paid] == [3, 3], "read by whoever has paid"
    assert service.sandbox.paid_runs(wallet.payer) == {answer["structuredContent"]["runId"] for answer in paid}
    offered = [(await each.request("resources/list"))["resources"] for each in (wire, kiosk(http))]
    assert [PRICES in {resource["uri"] for resource in each} for each in offered] == [True, False]
