"""The widgets on real answers: a host in a real browser passes their calls on to worker, API and sandbox."""

from collections.abc import Awaitable, Callable
from typing import Any

import httpx
from apify_client import ApifyClient
from playwright.async_api import expect

from outlast.api.mcp.widgets import widget_page
from tests.integration.widgets.host import running_chromium, showing

RUN_TOOLS = ("get-actor-run", "get-dataset-items", "get-actor-log", "abort-actor-run")


async def ask(http: httpx.AsyncClient, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
    body = {"mode": "openai", "arguments": arguments}
    answer = await http.post(f"/v1/tools/{tool}/call", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()["result"]["structured"]


def passing_on(http: httpx.AsyncClient, tool: str) -> Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]:
    return lambda arguments: ask(http, tool, arguments)


async def test_a_real_run_is_followed_and_aborted(http: httpx.AsyncClient, platform: ApifyClient) -> None:
    run_input = {"seconds": 60, "steps": 60, "rows": 600}
    started = await ask(http, "call-actor", {"actor": "outlast/sleeper", "input": run_input})
    tools = {name: passing_on(http, name) for name in RUN_TOOLS}
    async with (
        running_chromium() as browser,
        showing(browser, widget_page("actor-run.html"), tools=tools) as host,
    ):
        await host.give_result(started)
        frame = host.frame
        await expect(frame.get_by_role("heading")).to_have_text("outlast/sleeper")
        await expect(frame.locator("#message")).to_contain_text("of 60 s")
        await expect(frame.get_by_role("columnheader", name="message")).to_be_visible(timeout=20_000)
        await frame.get_by_role("button", name="Abort", exact=True).click()
        await frame.get_by_role("button", name="Yes, abort the run").click()
        await expect(frame.get_by_role("status")).to_have_text("Aborted")
        assert host.requests == []
    run = platform.run(started["runId"]).get()
    assert run is not None
    assert run.status == "ABORTED"


async def test_real_search_results_and_an_actors_input_are_shown(http: httpx.AsyncClient) -> None:
    tools = {"fetch-actor-details-internal": passing_on(http, "fetch-actor-details-internal")}
    async with (
        running_chromium() as browser,
        showing(browser, widget_page("search-results.html"), tools=tools) as host,
    ):
        await host.give_result(await ask(http, "search-actors", {"keywords": "crawl pages"}))
        await host.frame.get_by_role("button", name="Details of Site crawler").click()
        await expect(host.frame.locator(".field").first).to_contain_text("startUrls array, required")
        await host.give_result(await ask(http, "fetch-actor-details", {"actor": "outlast/sleeper"}))
        await expect(host.frame.get_by_role("heading", level=2)).to_have_text("Sleeper")
        await expect(host.frame.locator(".field").first).to_contain_text("seconds number")
