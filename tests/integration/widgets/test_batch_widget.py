"""The widget of a live batch, in a real browser and a sandboxed frame."""

from typing import Any

from playwright.async_api import Browser, expect

from outlast.api.mcp.widgets import widget_page
from tests.integration.widgets.host import RefusedByHost, Tool, showing
from tests.integration.widgets.samples import batch, batch_rows
from tests.support.eventually import eventually

PAGE = widget_page("batch.html")
BATCH_ID = batch()["batch"]["id"]
MARKUP = '<img src="https://evil.example/x.png" onerror="window.pwned = 1"><script>window.pwned = 2</script>'
DONE = {"key": "a-1", "index": 0, "status": "completed", "cost_usd": 0.0042, "items": [{"title": "Running Actors"}]}
FAILED = {"key": "b-2", "index": 1, "status": "failed", "error": {"category": "not_found", "message": "No such page."}}


def steady(**changes: Any) -> dict[str, Tool]:
    """A host whose batch stays as it is."""

    def results(arguments: dict[str, Any]) -> dict[str, Any]:
        return batch_rows(FAILED) if arguments.get("status") == "failed" else batch_rows(DONE, FAILED)

    return {"get-batch": lambda _: batch(**changes), "get-batch-results": results}


async def test_it_shows_counts_rate_time_left_and_money(browser: Browser) -> None:
    async with showing(browser, PAGE, tools=steady()) as host:
        await host.give_result(batch())
        frame = host.frame
        await expect(frame.get_by_role("heading")).to_have_text("outlast/site-crawler")
        await expect(frame.get_by_role("status")).to_have_text("Working")
        await expect(frame.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "25")
        await expect(frame.locator("#ended")).to_have_text("10")
        await expect(frame.locator("#total")).to_have_text("of 40")
        await expect(frame.locator("#failed")).to_have_text("1")
        await expect(frame.locator("#rate")).to_have_text("24 a minute")
        await expect(frame.locator("#left")).to_have_text("75 s left")
        await expect(frame.locator("#cost")).to_have_text("$0.0421")
        await expect(frame.locator("#budget")).to_have_text("of $20.00")
        rows = frame.get_by_role("table").get_by_role("row")
        await expect(rows).to_have_count(3)
        await expect(rows.nth(1)).to_contain_text("No such page.")
        await expect(rows.nth(2)).to_contain_text("Running Actors")
        await frame.get_by_role("tab", name="Failed").click()
        await expect(rows).to_have_count(2)
        asked = host.calls_of("get-batch-results")
        assert asked[0] == {"batchId": BATCH_ID, "offset": 0, "limit": 20}
        assert asked[-1] == {"batchId": BATCH_ID, "offset": 0, "limit": 20, "status": "failed"}
        assert host.requests == []


async def test_it_follows_the_batch_to_its_end_and_offers_the_results(browser: Browser) -> None:
    states = [
        batch(completed=30, waiting=4),
        batch("completed", completed=38, failed=2, under_way=0, waiting=0, seconds_left=None),
    ]
    looks: list[int] = []

    def state(_: dict[str, Any]) -> dict[str, Any]:
        looks.append(1)
        return states[min(len(looks), len(states)) - 1]

    tools: dict[str, Tool] = {**steady(), "get-batch": state}
    async with showing(browser, PAGE, tools=tools) as host:
        await host.give_result(batch(completed=0, failed=0))
        frame = host.frame
        await expect(frame.get_by_role("status")).to_have_text("Completed")
        await expect(frame.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "100")
        await expect(frame.locator("#batch")).to_have_attribute("aria-busy", "false")
        await expect(frame.get_by_role("button", name="Cancel")).to_be_hidden()
        # The rows of the end: the last twenty of forty.
        await eventually(lambda: host.calls_of("get-batch-results")[-1]["offset"] == 20)
        await frame.get_by_role("button", name="Use these results").click()
        message = await host.first("ui/message")
        assert states[-1]["batch"]["results"] in message["content"]["text"]
        assert len(looks) == 2, "what has ended is not asked for again"


async def test_cancel_asks_once_and_then_calls_the_tool(browser: Browser) -> None:
    tools = steady()

    def cancelled(_: dict[str, Any]) -> dict[str, Any]:
        tools["get-batch"] = lambda _: batch("cancelled", cancelled=5, under_way=0)
        return batch(status_message="Cancelling: waiting until the items under way have ended.")

    tools["cancel-batch"] = cancelled
    async with showing(browser, PAGE, tools=tools) as host:
        await host.give_result(batch())
        frame = host.frame
        await frame.get_by_role("button", name="Cancel", exact=True).click()
        assert host.calls_of("cancel-batch") == []
        await frame.get_by_role("button", name="Let it go on").click()
        await frame.get_by_role("button", name="Cancel", exact=True).click()
        await frame.get_by_role("button", name="Yes, cancel the batch").click()
        await expect(frame.get_by_role("status")).to_have_text("Cancelled")
        assert host.calls_of("cancel-batch") == [{"batchId": BATCH_ID}]


async def test_what_cannot_be_shown_is_said(browser: Browser) -> None:
    tools = steady()

    def refused(_: dict[str, Any]) -> dict[str, Any]:
        raise RefusedByHost("There is no tool 'cancel-batch'.")

    tools["cancel-batch"] = refused
    async with showing(browser, PAGE, tools=tools) as host:
        await host.give_result(None, "Nothing was started: Line 2: /input/seconds: -1 is too small", is_error=True)
        await expect(host.frame.get_by_role("alert")).to_contain_text("Line 2")
        await expect(host.frame.get_by_role("status")).to_have_text("Not started")
        await host.give_result(batch())
        await host.frame.get_by_role("button", name="Cancel", exact=True).click()
        await host.frame.get_by_role("button", name="Yes, cancel the batch").click()
        await expect(host.frame.get_by_role("alert")).to_contain_text("was not cancelled")
        await expect(host.frame.get_by_role("button", name="Cancel", exact=True)).to_be_enabled()


async def test_hostile_names_and_rows_are_text(browser: Browser) -> None:
    hostile = {"key": MARKUP, "status": "completed", "text": MARKUP, "cost_usd": "free"}
    tools: dict[str, Tool] = {**steady(name=MARKUP), "get-batch-results": lambda _: batch_rows(hostile)}
    async with showing(browser, PAGE, tools=tools) as host:
        await host.give_result(batch(name=MARKUP, status_message=MARKUP))
        await expect(host.frame.get_by_role("heading")).to_have_text(MARKUP)
        await expect(host.frame.get_by_role("table").get_by_role("row")).to_have_count(2)
        assert await host.frame.evaluate("window.pwned") is None
        assert host.requests == []
