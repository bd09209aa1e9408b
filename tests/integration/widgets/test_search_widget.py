"""The widget of search results, in a real browser and a sandboxed frame."""

from typing import Any

from playwright.async_api import Browser, expect

from outlast.api.mcp.widgets import widget_page
from tests.integration.widgets.host import showing
from tests.integration.widgets.samples import CARDS, DETAILS, search_answer
from tests.support.eventually import eventually

PAGE = widget_page("search-results.html")
MARKUP = '<img src="https://evil.example/x.png" onerror="window.pwned = 1">'


async def test_every_actor_gets_a_card(browser: Browser) -> None:
    async with showing(browser, PAGE) as host:
        await host.give_result(search_answer())
        frame = host.frame
        await expect(frame.get_by_role("heading", level=1)).to_have_text("Actors for “web pages”")
        await expect(frame.get_by_role("listitem")).to_have_count(4)
        await expect(frame.get_by_role("status")).to_have_text("4 of 37")
        maps = frame.get_by_role("listitem").nth(1)
        await expect(maps.get_by_text("231.4K")).to_be_visible()
        await expect(maps.get_by_text("★ 4.8")).to_be_visible()
        await expect(maps.get_by_text("Pay per event (Place: $0.004; Review: $0.0005).")).to_be_visible()
        await expect(frame.get_by_role("listitem").nth(3).get_by_text("Deprecated")).to_be_visible()
        assert host.requests == []


async def test_buttons_ask_the_host(browser: Browser) -> None:
    async with showing(browser, PAGE, tools={"fetch-actor-details-internal": lambda _: DETAILS}) as host:
        await host.give_result(search_answer())
        frame = host.frame
        await frame.get_by_role("button", name="Run RAG Web Browser").click()
        message = await host.first("ui/message")
        assert "apify/rag-web-browser" in message["content"]["text"]
        await frame.get_by_role("button", name="Open in Store").first.click()
        link = await host.first("ui/open-link")
        assert link == {"url": "https://apify.com/apify/rag-web-browser"}
        details = frame.get_by_role("button", name="Details of Site crawler")
        await details.click()
        await expect(details).to_have_attribute("aria-expanded", "true")
        fields = frame.locator(".field")
        await expect(fields.first).to_contain_text("startUrls array, required")
        await expect(fields.last).to_contain_text("linkScope string")
        await details.click()
        await expect(fields).to_have_count(0)


async def test_more_results_are_fetched_and_added(browser: Browser) -> None:
    tools = {"search-actors": lambda _: search_answer(CARDS[:2], total=6, offset=4)}
    async with showing(browser, PAGE, tools=tools) as host:
        await host.give_result(search_answer(total=6))
        await host.frame.get_by_role("button", name="Show more").click()
        await expect(host.frame.get_by_role("listitem")).to_have_count(6)
        await expect(host.frame.get_by_role("button", name="Show more")).to_be_hidden()
        assert host.calls == [("search-actors", {"keywords": "web pages", "offset": 4, "limit": 5})]


async def test_one_actor_is_shown_open(browser: Browser) -> None:
    answer = {"actor": search_answer()["actors"][2], "inputSchema": DETAILS["inputSchema"], "isMcpServer": True}
    async with showing(browser, PAGE) as host:
        await host.give_result(answer)
        await expect(host.frame.get_by_role("listitem")).to_have_count(1)
        await expect(host.frame.locator(".field")).to_have_count(3)
        await expect(host.frame.get_by_text("MCP server: its tools can be called")).to_be_visible()


async def test_nothing_found_and_a_failed_search_are_said(browser: Browser) -> None:
    async with showing(browser, PAGE) as host:
        await host.give_result(search_answer([], total=0))
        await expect(host.frame.get_by_text("No Actors found.")).to_be_visible()
        await host.give_result(None, "The platform does not answer.", is_error=True)
        await expect(host.frame.get_by_role("alert")).to_have_text("The platform does not answer.")


async def test_hostile_store_entries_are_text_and_their_links_are_dropped(browser: Browser) -> None:
    hostile = CARDS[0].model_copy(
        update={"title": MARKUP, "description": MARKUP, "url": "javascript:window.pwned=2", "notice": MARKUP}
    )
    async with showing(browser, PAGE) as host:
        await host.give_result(search_answer([hostile], total=1))
        await expect(host.frame.get_by_role("heading", level=2)).to_have_text(MARKUP)
        await expect(host.frame.get_by_role("button", name="Open in Store")).to_have_count(0)
        assert await host.frame.locator("img").count() == 0
        assert await host.frame.evaluate("window.pwned") is None
        assert host.requests == []


LEGACY_HOST = """<script>
  window.said = [];
  window.openai = {
    theme: "dark", toolInput: {}, toolOutput: null,
    callTool: async (name, args) => { said.push([name, args]); return { structuredContent: window.nextAnswer }; },
    sendFollowUpMessage: async (message) => said.push(["message", message]),
    openExternal: (link) => said.push(["link", link]),
    notifyIntrinsicHeight: (height) => { window.height = height; },
  };
</script>"""


async def test_an_older_host_is_served_through_window_openai(browser: Browser) -> None:
    """It knows nothing of `ui/initialize`: the page falls back after a moment."""
    window = await browser.new_context()
    page = await window.new_page()
    await page.set_content("<iframe sandbox='allow-scripts' width=700 height=500></iframe>")
    # Before the page's policy, as a host does it.
    html = PAGE.replace("<meta http-equiv", f"{LEGACY_HOST}<meta http-equiv", 1)
    await page.evaluate("html => { document.querySelector('iframe').srcdoc = html; }", html)
    frame = await eventually(lambda: next((each for each in page.frames[1:] if each.url == "about:srcdoc"), None))
    answer: dict[str, Any] = search_answer(total=4)
    await expect(frame.locator("html")).to_have_attribute("data-theme", "dark")
    await frame.evaluate(
        """(answer) => {
          window.openai.toolOutput = answer;
          window.dispatchEvent(new CustomEvent("openai:set_globals", { detail: { globals: { toolOutput: answer } } }));
        }""",
        answer,
    )
    await expect(frame.get_by_role("listitem")).to_have_count(4)
    await frame.evaluate("answer => { window.nextAnswer = answer; }", DETAILS)
    await frame.get_by_role("button", name="Details of Site crawler").click()
    await expect(frame.locator(".field")).to_have_count(3)
    await frame.get_by_role("button", name="Run Site crawler").click()
    await eventually(lambda: frame.evaluate("said.length === 2"))
    said = await frame.evaluate("said")
    assert said[0] == ["fetch-actor-details-internal", {"actor": "outlast/site-crawler"}]
    assert said[1][0] == "message"
    # The browser reports sizes after it has drawn: whenever that is.
    await eventually(lambda: frame.evaluate("window.height > 100"))
    await window.close()
