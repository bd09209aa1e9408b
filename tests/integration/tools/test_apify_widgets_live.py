"""The pages of the mode `apify` against a real server: a host in a real browser passes their calls on."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import httpx
import pytest
from apify_client import ApifyClient
from playwright.async_api import expect

from tests.integration.widgets.host import JsonObject, WidgetHost, running_chromium, showing
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.x402_wallet import Wallet

SLEEPER = "outlast/sleeper"
CAPABLE = {"extensions": {"io.modelcontextprotocol/ui": {"mimeTypes": ["text/html;profile=mcp-app"]}}}


class Host:
    """A client that declares that it shows apps; the address says nothing of it."""

    def __init__(self, http: httpx.AsyncClient, revision: str, query: str) -> None:
        self.wire = Wire(http, revision, f"?mode=apify&{query}")

    async def connect(self) -> None:
        if self.wire.revision == LEGACY:
            await self.wire.initialize(CAPABLE)

    async def call(self, tool: str, arguments: JsonObject, **meta: JsonObject) -> JsonObject:
        """The answer of a tool, as the host's own model or a page gets it."""
        params = {"name": tool, "arguments": arguments, **({"_meta": meta} if meta else {})}
        return await self.wire.request("tools/call", params, capabilities=CAPABLE)

    @asynccontextmanager
    async def page_of(self, tool: str) -> AsyncGenerator[WidgetHost]:
        """The page that `tools/list` links to the tool."""
        tools = (await self.wire.request("tools/list", capabilities=CAPABLE))["tools"]
        uri = next(entry["_meta"]["ui"]["resourceUri"] for entry in tools if entry["name"] == tool)
        page = await self.wire.request("resources/read", {"uri": uri}, capabilities=CAPABLE)
        html = page["contents"][0]["text"]
        async with running_chromium() as browser, showing(browser, html, surface=self.call) as host:
            yield host


@pytest.mark.parametrize("revision", [pytest.param(LEGACY, marks=pytest.mark.thorough), MODERN])
async def test_a_run_is_shown_to_its_end(http: httpx.AsyncClient, revision: str) -> None:
    client = Host(http, revision, "tools=runs,call-actor-widget")
    await client.connect()
    started = await client.call(
        "call-actor-widget", {"actor": SLEEPER, "input": {"seconds": 8, "steps": 8, "rows": 16}}
    )
    assert started["structuredContent"]["status"] in ("READY", "RUNNING")
    async with client.page_of("call-actor-widget") as host:
        await host.give_answer(started)
        frame = host.frame
        await expect(frame.get_by_role("heading")).to_have_text(SLEEPER)
        await expect(frame.locator("#message")).to_contain_text("of 8 s")
        await frame.get_by_role("tab", name="Log").click()
        await eventually(lambda: host.calls_of("get-actor-run-log"))
        await expect(frame.get_by_role("status")).to_have_text("Succeeded")
        await frame.get_by_role("tab", name="Storages").click()
        dataset = started["structuredContent"]["storages"]["datasets"]["default"]["id"]
        await expect(frame.get_by_role("tabpanel", name="Storages")).to_contain_text(dataset)
        await frame.get_by_role("tab", name="Rows").click()
        await expect(frame.locator("#rows")).to_have_text("16")
        await expect(frame.locator("#cost")).to_contain_text("$")
        await frame.get_by_role("button", name="Use these results").click()
        assert dataset in (await host.first("ui/message"))["content"]["text"]
        await expect(frame.get_by_role("alert")).to_be_hidden()
        assert host.requests == []


async def test_a_run_can_be_aborted_where_nothing_else_looks_at_runs(
    http: httpx.AsyncClient, platform: ApifyClient
) -> None:
    client = Host(http, MODERN, "tools=get-actor-run-widget")
    run = platform.actor("outlast/sleeper").start(run_input={"seconds": 300, "steps": 300})
    assert run is not None
    shown = await client.call("get-actor-run-widget", {"runId": run.id})
    async with client.page_of("get-actor-run-widget") as host:
        await host.give_answer(shown)
        frame = host.frame
        await expect(frame.locator("#message")).to_contain_text("of 300 s")
        await eventually(lambda: len(host.calls_of("get-actor-run-widget")) > 1)
        await frame.get_by_role("button", name="Abort", exact=True).click()
        await frame.get_by_role("button", name="Yes, abort the run").click()
        await expect(frame.get_by_role("status")).to_have_text("Aborted")
        await expect(frame.get_by_role("alert")).to_be_hidden()
    ended = platform.run(run.id).get()
    assert ended is not None
    assert ended.status == "ABORTED"


async def test_actors_are_found_looked_at_and_shown(http: httpx.AsyncClient) -> None:
    client = Host(http, MODERN, "tools=search-actors,fetch-actor-details")
    async with client.page_of("search-actors-widget") as host:
        arguments = {"keywords": "", "limit": 1}
        await host.notify("ui/notifications/tool-input", arguments=arguments)
        found = await client.call("search-actors-widget", arguments)
        await host.notify("ui/notifications/tool-result", **found)
        frame = host.frame
        await expect(frame.get_by_role("listitem")).to_have_count(1)
        crawler = frame.get_by_role("listitem").filter(has_text="outlast/site-crawler")
        more = frame.get_by_role("button", name="Show more")
        while await crawler.count() == 0:
            shown = await frame.locator("li.card").count()
            await more.click()
            await expect(frame.locator("li.card")).to_have_count(shown + 1)
        await crawler.get_by_role("button", name="Details").click()
        await expect(crawler.locator(".field").first).to_contain_text("startUrls array, required")
        await expect(crawler.get_by_role("region", name="Documentation")).to_contain_text("crawl")
        await crawler.get_by_role("button", name="Open in Store").click()
        assert (await host.first("ui/open-link"))["url"] == "https://apify.com/outlast/site-crawler"
        await host.give_answer(await client.call("fetch-actor-details-widget", {"actor": SLEEPER}))
        await expect(frame.locator("li.card")).to_have_count(1)
        await expect(frame.get_by_role("heading", level=2)).to_have_text("Sleeper")
        await expect(frame.get_by_role("region", name="Documentation")).to_contain_text("OUTPUT")
        await expect(frame.locator(".field").first).to_contain_text("seconds number")
        await expect(frame.get_by_role("alert")).to_be_hidden()


async def test_a_page_without_a_wallet_says_so_and_one_with_a_token_goes_on(http: httpx.AsyncClient) -> None:
    signed, token = Wallet().payment(), {"skyfire-pay-id": "eyATokenOfThePage"}
    for payment, arguments, meta in (("x402", {}, {"x402/payment": signed}), ("skyfire", token, {})):
        client = Host(http, MODERN, f"payment={payment}&tools=call-actor-widget")
        given = {"actor": SLEEPER, "input": {"seconds": 5, "steps": 5}, **arguments}
        started = await client.call("call-actor-widget", given, **meta)
        assert not started["isError"], started
        async with client.page_of("call-actor-widget") as host:
            await host.notify("ui/notifications/tool-input", arguments=given)
            await host.notify("ui/notifications/tool-result", **started)
            if payment == "x402":
                await expect(host.frame.get_by_role("alert")).to_contain_text("this page cannot pay")
            else:
                await expect(host.frame.get_by_role("status")).to_have_text("Succeeded")
                await expect(host.frame.get_by_role("alert")).to_be_hidden()
