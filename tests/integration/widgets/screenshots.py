"""Takes the pictures of docs/widgets.md: `.venv/bin/python -m tests.integration.widgets.screenshots`."""

import asyncio
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, expect

from outlast.api.mcp.dialects.apify import PAGES
from outlast.api.mcp.widgets import widget_page
from tests.integration.widgets.apify_samples import INPUT_SCHEMA, README, USAGE, details
from tests.integration.widgets.apify_samples import run as run_answer
from tests.integration.widgets.host import JsonObject, Tool, WidgetHost, running_chromium, showing
from tests.integration.widgets.samples import (
    DETAILS,
    SITE_PAGES,
    batch,
    batch_rows,
    dataset_page,
    log,
    rows,
    run_report,
    search_answer,
)

FOLDER = Path(__file__).parents[3] / "docs" / "screenshots"
WIDTH = 760
RUN_SCALE, SEARCH_SCALE = 1.5, 1
SHORT_README = README.partition("> Places")[0].replace(" or see ![a picture](https://evil.example/x.png)", "")


async def take(host: WidgetHost, name: str) -> None:
    """The whole widget with a little of what is around it."""
    await host.page.wait_for_timeout(400)
    # Chromium paints of a frame from elsewhere only what is in the window: so the window gets as high as the widget.
    height = await host.page.evaluate("frame.offsetHeight + 48")
    await host.page.set_viewport_size({"width": WIDTH, "height": height})
    await host.page.wait_for_timeout(400)
    await host.page.screenshot(path=FOLDER / f"widgets-{name}.png", animations="disabled")


async def run(browser: Browser, name: str, *, theme: str, tab: str = "Rows", **report: Any) -> None:
    """The widget of a run in one state."""
    answer = run_report(**report)
    tools: dict[str, Tool] = {
        "get-actor-run": lambda _: answer,
        "get-dataset-items": lambda _: dataset_page(rows(8), total=30 if report.get("status") == "SUCCEEDED" else 8),
        "get-actor-log": lambda _: log(),
    }
    html = widget_page("actor-run.html")
    async with showing(
        browser, html, tools=tools, width=WIDTH, scale=RUN_SCALE, context={"theme": theme, "locale": "en-US"}
    ) as host:
        await host.page.evaluate("theme => { document.documentElement.className = theme; }", theme)
        await host.give_result(answer)
        await expect(host.frame.get_by_role("table")).to_be_visible()
        await host.frame.get_by_role("tab", name=tab).click()
        await take(host, name)


async def live_batch(browser: Browser, name: str, *, theme: str) -> None:
    """The widget of a batch at work."""
    found = [
        {
            "key": title,
            "index": number,
            "status": "failed" if words == 0 else "completed",
            "cost_usd": 0.0021 + number / 10_000,
            **({"error": {"message": f"{path} was not found (404)."}} if words == 0 else {"items": [{"words": words}]}),
        }
        for number, (title, path, _, words, _) in enumerate(SITE_PAGES)
    ]
    answer = batch(completed=17, failed=1, waiting=17)
    tools: dict[str, Tool] = {"get-batch": lambda _: answer, "get-batch-results": lambda _: batch_rows(*found)}
    async with showing(
        browser,
        widget_page("batch.html"),
        tools=tools,
        width=WIDTH,
        scale=RUN_SCALE,
        context={"theme": theme, "locale": "en-US"},
    ) as host:
        await host.page.evaluate("theme => { document.documentElement.className = theme; }", theme)
        await host.give_result(answer)
        await expect(host.frame.get_by_role("table")).to_be_visible()
        await take(host, name)


async def search(browser: Browser, name: str, *, theme: str) -> None:
    """The widget of search results, one Actor open."""
    html = widget_page("search-results.html")
    tools: dict[str, Tool] = {"fetch-actor-details-internal": lambda _: DETAILS}
    async with showing(
        browser, html, tools=tools, width=WIDTH, scale=SEARCH_SCALE, context={"theme": theme, "locale": "en-US"}
    ) as host:
        await host.page.evaluate("theme => { document.documentElement.className = theme; }", theme)
        await host.give_result(search_answer())
        await host.frame.get_by_role("button", name="Details of Site crawler").click()
        await take(host, name)


async def in_mode_apify(
    browser: Browser, name: str, uri: str, answer: JsonObject, *, theme: str, tab: str = ""
) -> None:
    """A page as the mode `apify` serves it."""
    html = str(next(page for page in PAGES if page.uri == uri).read({}))

    async def surface(tool: str, _arguments: JsonObject) -> JsonObject:
        told = {
            "get-actor-run": answer,
            "get-dataset-items": dataset_page(rows(8)),
            "fetch-actor-details": INPUT_SCHEMA,
        }
        return {"content": [], "structuredContent": told[tool], "_meta": USAGE}

    async with showing(
        browser, html, surface=surface, width=WIDTH, scale=SEARCH_SCALE, context={"theme": theme, "locale": "en-US"}
    ) as host:
        await host.page.evaluate("theme => { document.documentElement.className = theme; }", theme)
        await host.give_answer({"content": [], "structuredContent": answer, "_meta": USAGE})
        if tab:
            await expect(host.frame.get_by_role("table")).to_be_visible()
            await host.frame.get_by_role("tab", name=tab).click()
        else:
            await expect(host.frame.locator(".field").first).to_be_visible()
        await take(host, name)


async def main() -> None:
    """All of them."""
    async with running_chromium() as browser:
        await run(browser, "run-light", theme="light")
        await run(browser, "run-dark-log", theme="dark", tab="Log")
        await run(browser, "run-finished", theme="light", status="SUCCEEDED", message="Done: 30 pages", seconds=214)
        await live_batch(browser, "batch-light", theme="light")
        await search(browser, "search-light", theme="light")
        await search(browser, "search-dark", theme="dark")
        await in_mode_apify(
            browser, "apify-actor", "ui://widget/search-actors.html", details(SHORT_README), theme="light"
        )
        run_page = "ui://widget/actor-run.html"
        await in_mode_apify(browser, "apify-run", run_page, run_answer(), theme="dark", tab="Storages")


if __name__ == "__main__":
    asyncio.run(main())
