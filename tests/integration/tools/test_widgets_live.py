"""The widgets against a real server: a host in a real browser passes their calls on to `/mcp?ui=openai`, and no others.

Each test opens the page that this URL serves and presses its buttons.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from apify_client import ApifyClient
from playwright.async_api import expect

from tests.integration.widgets.host import JsonObject, WidgetHost, running_chromium, showing
from tests.support.eventually import eventually
from tests.support.http.mcp_wire import MODERN, Wire

CLICKS = """() => {
  window.clicked = [];
  const name = (button) => button.id || button.textContent;
  addEventListener("click", ({ target }) => target.closest("button") && clicked.push(name(target.closest("button"))));
}"""
"""Notes the buttons that are pressed: by id, or by text where there is one per Actor."""


@pytest.fixture
def wire(http: httpx.AsyncClient) -> Wire:
    """The surface that the documented URL gives."""
    return Wire(http, MODERN, "?ui=openai")


async def call(wire: Wire, name: str, arguments: JsonObject) -> JsonObject:
    return await wire.request("tools/call", {"name": name, "arguments": arguments})


@asynccontextmanager
async def widget_of(wire: Wire, tool: str) -> AsyncGenerator[WidgetHost]:
    """The widget that `tools/list` links to the tool."""
    listed = {entry["name"]: entry for entry in (await wire.request("tools/list"))["tools"]}
    page = await wire.request("resources/read", {"uri": listed[tool]["_meta"]["ui"]["resourceUri"]})
    async with (
        running_chromium() as browser,
        showing(browser, page["contents"][0]["text"], surface=lambda *given: call(wire, *given)) as host,
    ):
        await host.frame.evaluate(CLICKS)
        yield host


async def clicked(host: WidgetHost) -> set[str]:
    return set(await host.frame.evaluate("clicked"))


async def buttons(host: WidgetHost) -> set[str]:
    return set(
        await host.frame.evaluate("[...document.querySelectorAll('button')].map((each) => each.id || each.textContent)")
    )


async def test_every_button_of_the_run_widget_works(wire: Wire, platform: ApifyClient) -> None:
    run_input = {"seconds": 60, "steps": 60, "rows": 600}
    started = await call(wire, "call-actor", {"actor": "outlast/sleeper", "input": run_input})
    async with widget_of(wire, "call-actor") as host:
        await host.give_answer(started)
        frame = host.frame
        await expect(frame.get_by_role("heading")).to_have_text("outlast/sleeper")
        await expect(frame.locator("#message")).to_contain_text("of 60 s")
        await frame.get_by_role("tab", name="Log").click()
        await eventually(lambda: host.calls_of("get-actor-log"))
        await frame.get_by_role("tab", name="Rows").click()
        await expect(frame.get_by_role("columnheader", name="message")).to_be_visible()
        await frame.get_by_role("button", name="Abort", exact=True).click()
        await frame.get_by_role("button", name="Keep it running").click()
        await frame.get_by_role("button", name="Abort", exact=True).click()
        await frame.get_by_role("button", name="Yes, abort the run").click()
        await expect(frame.get_by_role("status")).to_have_text("Aborted")
        await frame.get_by_role("button", name="Use these results").click()
        dataset = started["structuredContent"]["storages"]["datasets"]["default"]["id"]
        assert dataset in (await host.first("ui/message"))["content"]["text"]
        await expect(frame.get_by_role("alert")).to_be_hidden()
        assert await clicked(host) == await buttons(host)
        assert host.requests == []
    run = platform.run(started["structuredContent"]["runId"]).get()
    assert run is not None
    assert run.status == "ABORTED"


async def test_every_button_of_the_search_widget_works(wire: Wire) -> None:
    async with widget_of(wire, "search-actors") as host:
        await host.give_answer(await call(wire, "search-actors", {"keywords": "", "limit": 1}))
        frame = host.frame
        listed = frame.get_by_role("listitem")
        await expect(listed).to_have_count(1)
        site_crawler = listed.filter(has_text="outlast/site-crawler")
        shown = 0
        while not (shown and await site_crawler.count()):
            shown = await listed.count()
            await frame.get_by_role("button", name="Show more").click()
            await expect(listed).not_to_have_count(shown)
        await site_crawler.get_by_role("button", name="Details").click()
        await expect(frame.locator(".field").first).to_contain_text("startUrls array, required")
        await site_crawler.get_by_role("button", name="Run").click()
        assert "outlast/site-crawler" in (await host.first("ui/message"))["content"]["text"]
        await site_crawler.get_by_role("button", name="Open in Store").click()
        assert (await host.first("ui/open-link"))["url"].endswith("outlast~site-crawler")
        await expect(frame.get_by_role("alert")).to_be_hidden()
        assert await clicked(host) == await buttons(host)
        await host.give_answer(await call(wire, "fetch-actor-details", {"actor": "outlast/sleeper"}))
        await expect(frame.get_by_role("heading", level=2)).to_have_text("Sleeper")
        await expect(frame.locator(".field").first).to_contain_text("seconds number")


async def test_what_the_server_refuses_is_shown(wire: Wire, platform: ApifyClient) -> None:
    """The platform has lost the run meanwhile, and with it its log."""
    started = await call(wire, "call-actor", {"actor": "outlast/sleeper", "input": {"seconds": 60}})
    report: dict[str, Any] = {**started["structuredContent"], "runId": "gone0123456789abc"}
    async with widget_of(wire, "call-actor") as host:
        await host.give_answer({**started, "structuredContent": report})
        notice = host.frame.get_by_role("alert")
        await expect(notice).to_contain_text("Cannot refresh now; trying again.")
        await expect(notice).to_contain_text("The log cannot be read.")
        await host.frame.get_by_role("button", name="Abort", exact=True).click()
        await host.frame.get_by_role("button", name="Yes, abort the run").click()
        await expect(notice).to_contain_text("The run was not aborted.")
        looks = len(host.calls_of("get-actor-run"))
        await eventually(lambda: len(host.calls_of("get-actor-run")) > looks)
        await expect(notice).to_contain_text("The run was not aborted.")
    platform.run(started["structuredContent"]["runId"]).abort()
