"""The run page as the mode `apify` serves it, in a real browser and a sandboxed frame."""

from typing import Any

from playwright.async_api import Browser, expect

from outlast.api.mcp.dialects.apify import PAGES
from tests.integration.widgets.apify_samples import RUN_ID, TERMS, USAGE, run
from tests.integration.widgets.host import JsonObject, RefusedByHost, WidgetHost, showing
from tests.integration.widgets.samples import dataset_page, log, rows
from tests.support.eventually import eventually

PAGE = str(next(page for page in PAGES if page.uri == "ui://widget/actor-run.html").read({}))
MARKUP = '<img src="https://evil.example/x.png" onerror="window.pwned = 1"><script>window.pwned = 2</script>'


def answer(structured: JsonObject, meta: JsonObject | None = None) -> JsonObject:
    return {"content": [], "structuredContent": structured, "isError": False, "_meta": meta or {}}


def refusal(text: str, structured: JsonObject | None = None) -> JsonObject:
    found: JsonObject = {"content": [{"type": "text", "text": text}], "isError": True}
    return {**found, "structuredContent": structured} if structured else found


class Server:
    """Answers the page's calls: with `states` one after the other, the last one from then on."""

    def __init__(self, *states: JsonObject, items: int = 8, tools: dict[str, JsonObject] | None = None) -> None:
        self.states = list(states)
        self.tools = tools or {}
        self._items = items

    async def __call__(self, tool: str, _arguments: JsonObject) -> JsonObject:
        if tool in self.tools:
            return self.tools[tool]
        if tool == "get-actor-run":
            state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
            return state if "content" in state else answer(state, USAGE)
        if tool == "get-dataset-items":
            return answer(dataset_page(rows(self._items), total=self._items))
        raise RefusedByHost(f'MCP error -32602: Tool "{tool}" was not found.\nAvailable tools: get-dataset-items.')


async def no_more_calls(host: WidgetHost) -> None:
    calls = len(host.calls)
    await host.page.wait_for_timeout(4_500)
    assert len(host.calls) == calls


async def is_unharmed(host: WidgetHost) -> None:
    assert await host.frame.locator("img, script[src]").count() == 0
    assert await host.frame.evaluate("window.pwned") is None
    assert host.requests == [], "nothing leaves the page"


async def test_it_follows_the_run_with_its_cost_and_storages_and_stops_at_its_end(browser: Browser) -> None:
    server = Server(run(), run("SUCCEEDED", message="Done: 30 pages", rows=30), items=30)
    async with showing(browser, PAGE, surface=server) as host:
        await host.give_answer(answer(run("READY", message=None, rows=0)))
        frame = host.frame
        await expect(frame.get_by_role("status")).to_have_text("Succeeded")
        await expect(frame.locator("#cost")).to_have_text("$0.0124")
        assert "dataset writes: $0.000500" in str(await frame.locator("#cost").get_attribute("title"))
        await expect(frame.locator("#memory")).to_have_text("187 MB")
        await expect(frame.locator("#rows")).to_have_text("30")
        await frame.get_by_role("tab", name="Storages").click()
        storages = frame.get_by_role("tabpanel", name="Storages").get_by_role("listitem")
        await expect(storages.nth(0)).to_contain_text("d4TaSeT5mZ1TnYxVb")
        await expect(storages.nth(0)).to_contain_text("30 rows, 48 KB")
        await expect(storages.nth(1)).to_contain_text("Dataset errors")
        await expect(storages.nth(2)).to_contain_text("2 keys: INPUT, OUTPUT")
        await eventually(lambda: len(host.calls_of("get-actor-run")) == 3)
        await no_more_calls(host)
        assert host.calls_of("get-actor-run")[0] == {"runId": RUN_ID, "waitSecs": 0}
        assert host.calls_of("get-actor-run-log") == [], "it is read when somebody looks at it"
        assert host.requests == []


async def test_rows_are_read_again_when_there_are_more_of_them(browser: Browser) -> None:
    states = [run(rows=8), run(rows=8), run(rows=8), run(rows=9), run(rows=9)]
    async with showing(browser, PAGE, surface=Server(*states)) as host:
        await host.give_answer(answer(run("READY", message=None, rows=0)))
        await eventually(lambda: len(host.calls_of("get-actor-run")) == 4)
        assert len(host.calls_of("get-dataset-items")) == 1
        await eventually(lambda: len(host.calls_of("get-dataset-items")) == 2)


async def test_the_log_is_read_when_its_tab_is_opened_and_may_not_be_there(browser: Browser) -> None:
    server = Server(run())
    async with showing(browser, PAGE, surface=server) as host:
        await host.give_answer(answer(run()))
        await host.frame.get_by_role("tab", name="Log").click()
        await expect(host.frame.locator("#log")).to_have_text(
            "This connection does not offer logs (get-actor-run-log)."
        )
        await expect(host.frame.get_by_role("alert")).to_be_hidden()
        server.tools["get-actor-run-log"] = answer(log())
        await expect(host.frame.locator("#log")).to_contain_text("Crawling from 1 start URL")
        assert host.calls_of("get-actor-run-log")[0] == {"runId": RUN_ID, "lines": 50}


async def test_without_the_tool_that_describes_runs_it_uses_the_one_that_shows_them(browser: Browser) -> None:
    missing = refusal('Tool "get-actor-run" was not found.\nAvailable tools: get-actor-run-widget.')
    shown = answer(run(message="Crawled 9 of 30 pages"))
    server = Server(missing, tools={"get-actor-run-widget": shown})
    async with showing(browser, PAGE, surface=server) as host:
        await host.give_answer(answer(run()))
        await expect(host.frame.locator("#message")).to_have_text("Crawled 9 of 30 pages")
        await eventually(lambda: len(host.calls_of("get-actor-run-widget")) == 2)
        assert len(host.calls_of("get-actor-run")) == 1
        await expect(host.frame.get_by_role("alert")).to_be_hidden()


async def test_where_calls_are_paid_one_by_one_it_says_that_it_cannot_and_stops(browser: Browser) -> None:
    unpaid = refusal('{"x402Version":2}', TERMS)
    server = Server(unpaid, tools={"get-dataset-items": unpaid, "abort-actor-run": unpaid})
    async with showing(browser, PAGE, surface=server) as host:
        await host.give_answer(answer(run()))
        frame = host.frame
        await expect(frame.get_by_role("alert")).to_contain_text("this page cannot pay. It shows the run as it was at")
        await expect(frame.get_by_role("alert")).not_to_contain_text("x402Version")
        await expect(frame.get_by_role("button", name="Abort")).to_have_count(0)
        elapsed = await frame.locator("#elapsed").text_content()
        await frame.get_by_role("button", name="Ask for its state").click()
        assert f"run {RUN_ID}" in (await host.first("ui/message"))["content"]["text"]
        await no_more_calls(host)
        assert await frame.locator("#elapsed").text_content() == elapsed


async def test_a_call_that_was_not_paid_is_told_in_words(browser: Browser) -> None:
    async with showing(browser, PAGE, surface=Server(run())) as host:
        await host.give_answer(refusal('{"x402Version":2,"accepts":[]}', TERMS))
        await expect(host.frame.get_by_role("alert")).to_have_text(
            "The call has to be paid first. Nothing was started."
        )
        await expect(host.frame.get_by_role("status")).to_have_text("Not started")


async def test_the_token_that_paid_for_the_run_pays_for_what_the_page_reads(browser: Browser) -> None:
    token = {"skyfire-pay-id": "eyTheTokenOfTheCall"}
    async with showing(browser, PAGE, surface=Server(run())) as host:
        await host.notify("ui/notifications/tool-input", arguments={"actor": "a/b", "input": {}, **token})
        await host.notify("ui/notifications/tool-result", **answer(run()))
        await eventually(lambda: host.calls_of("get-dataset-items"))
        assert all(token.items() <= given.items() for _, given in host.calls)


async def test_whatever_a_run_says_is_text(browser: Browser) -> None:
    storages: dict[str, Any] = {
        "datasets": {MARKUP: {"id": MARKUP, "title": MARKUP, "fields": [MARKUP], "itemCount": MARKUP}},
        "keyValueStores": {"default": {"id": MARKUP, "keys": [MARKUP]}},
    }
    hostile = run(message=MARKUP, actorName=MARKUP, storages=storages)
    tools = {
        "get-actor-run-log": answer({"log": MARKUP}),
        "get-dataset-items": answer(dataset_page([{MARKUP: MARKUP}])),
    }
    meta = {"com.apify/ActorRun": {"usageTotalUsd": MARKUP, "usageUsd": {MARKUP: 1, "x": MARKUP}}}
    server = Server(answer(hostile, meta), tools=tools)
    async with showing(browser, PAGE, surface=server) as host:
        await host.give_answer(answer(hostile, meta))
        frame = host.frame
        await expect(frame.get_by_role("heading")).to_have_text(MARKUP)
        await expect(frame.locator("#message")).to_have_text(MARKUP)
        await frame.get_by_role("tab", name="Storages").click()
        await expect(frame.get_by_role("listitem").first).to_contain_text(MARKUP)
        await frame.get_by_role("tab", name="Log").click()
        await expect(frame.locator("#log")).to_have_text(MARKUP)
        await is_unharmed(host)


async def test_a_report_without_what_is_expected_breaks_nothing(browser: Browser) -> None:
    states: list[JsonObject] = [
        {"runId": RUN_ID},
        {"runId": RUN_ID, "storages": None, "stats": [], "status": 7},
        {"runId": RUN_ID, "storages": {"datasets": {"default": None}, "keyValueStores": []}, "status": "RUNNING"},
        run("SUCCEEDED", message="Done"),
    ]
    async with showing(browser, PAGE, surface=Server(*states)) as host:
        await host.give_answer(answer(run("READY", message=None)))
        await expect(host.frame.get_by_role("status")).to_have_text("Succeeded")
