"""The page of Actors as the mode `apify` serves it, in a real browser and a sandboxed frame."""

import pytest
from playwright.async_api import Browser, expect

from outlast.api.mcp.dialects.apify import PAGES
from tests.integration.widgets.apify_samples import ACTORS, INPUT_SCHEMA, PICTURE, README, details, search
from tests.integration.widgets.host import Tool, WidgetHost, showing

PAGE = str(next(page for page in PAGES if page.uri == "ui://widget/search-actors.html").read({}))
MARKUP = '<img src="https://evil.example/x.png" onerror="window.pwned = 1"><script>window.pwned = 2</script>'
ELSEWHERE = "https://evil.example/x.png"
TOOLS: dict[str, Tool] = {
    "fetch-actor-details-widget": lambda _: details(),
    "fetch-actor-details": lambda _: INPUT_SCHEMA,
}


async def is_unharmed(host: WidgetHost) -> None:
    assert await host.frame.locator("script[src], [onclick], [onerror]").count() == 0
    assert await host.frame.evaluate("window.pwned") is None
    assert [url for url in host.requests if not url.startswith("https://images.apifyusercontent.com/")] == []


async def test_every_actor_gets_a_card_with_its_price(browser: Browser) -> None:
    async with showing(browser, PAGE) as host:
        await host.give_result(search())
        frame = host.frame
        await expect(frame.get_by_role("heading", level=1)).to_have_text("Actors for “web pages”")
        await expect(frame.get_by_role("status")).to_have_text("4 shown")
        cards = frame.get_by_role("listitem")
        await expect(cards).to_have_count(4)
        for place, words in enumerate(
            (
                ("14.8K users", "★ 4.6 (58)", "Free; you pay for platform usage only."),
                ("231.4K users", "Pay per event (Place: $0.004; Review: $0.0005; Contact: by tier; …)."),
                ("12 users", "Free; you pay for platform usage only."),
                ("Deprecated", "$0.0025 per result."),
            )
        ):
            for text in words:
                await expect(cards.nth(place)).to_contain_text(text)
        assert host.requests == [PICTURE], "the picture of the first one, and nothing else"


async def test_a_search_goes_on_where_it_ended(browser: Browser) -> None:
    tools: dict[str, Tool] = {"search-actors-widget": lambda _: search(ACTORS[2:])}
    async with showing(browser, PAGE, tools=tools) as host:
        await host.notify("ui/notifications/tool-input", arguments={"keywords": "web pages", "limit": "2", "offset": 4})
        await host.notify("ui/notifications/tool-result", structuredContent=search(ACTORS[:2]), content=[])
        await host.frame.get_by_role("button", name="Show more").click()
        await expect(host.frame.get_by_role("listitem")).to_have_count(4)
        assert host.calls == [("search-actors-widget", {"keywords": "web pages", "offset": 6, "limit": 2})]
        await expect(host.frame.get_by_role("button", name="Show more")).to_be_visible()


async def test_details_have_the_input_and_the_documentation(browser: Browser) -> None:
    async with showing(browser, PAGE, tools=TOOLS) as host:
        await host.give_result(search())
        frame = host.frame
        await frame.get_by_role("button", name="Details of Google Maps Scraper").click()
        await expect(frame.locator(".field").first).to_contain_text("searchStringsArray array, required")
        documentation = frame.get_by_role("region", name="Documentation")
        await expect(documentation.get_by_role("heading", name="What it gives")).to_be_visible()
        await expect(documentation.get_by_role("row")).to_have_count(3)
        await expect(documentation.locator("ul > li")).to_have_count(3)
        await expect(documentation.locator("pre")).to_contain_text('"locationQuery": "Prague"')
        await documentation.get_by_role("button", name="the map").click()
        assert await host.first("ui/open-link") == {"url": "https://maps.google.com"}
        await expect(documentation).to_contain_text("Ask for help or see a picture.")
        await expect(documentation).to_contain_text('<b onclick="window.pwned = 1">Markup is shown as it is.</b>')
        await is_unharmed(host)


async def test_one_actor_is_shown_open_also_where_its_input_cannot_be_read(browser: Browser) -> None:
    async with showing(browser, PAGE, tools={}) as host:
        await host.give_result(details())
        frame = host.frame
        await expect(frame.get_by_role("heading", level=2)).to_have_text("Google Maps Scraper")
        await expect(frame.get_by_role("region", name="Documentation")).to_be_visible()
        await frame.get_by_role("button", name="Open in Store").click()
        assert await host.first("ui/open-link") == {"url": ACTORS[1]["url"]}
        await frame.get_by_role("button", name="Run").click()
        assert "compass/crawler-google-places" in (await host.first("ui/message"))["content"]["text"]
        assert host.calls == [
            ("fetch-actor-details", {"actor": "compass/crawler-google-places", "output": {"inputSchema": True}})
        ]
        await expect(frame.get_by_role("alert")).to_be_hidden()


async def test_nothing_found_and_a_failed_search_are_said(browser: Browser) -> None:
    async with showing(browser, PAGE) as host:
        await host.give_result(search([]))
        await expect(host.frame.get_by_text("No Actors found.")).to_be_visible()
        await host.give_result(None, "Actor information for 'x/y' was not found.", is_error=True)
        await expect(host.frame.get_by_role("alert")).to_have_text("Actor information for 'x/y' was not found.")


@pytest.mark.parametrize(
    "picture", [ELSEWHERE, "javascript:window.pwned=3", "//evil.example/x.png", "data:image/png;,"]
)
async def test_hostile_entries_are_text_and_load_nothing(browser: Browser, picture: str) -> None:
    hostile = {
        **ACTORS[0],
        **dict.fromkeys(("title", "fullName", "description"), MARKUP),
        "url": "javascript:window.pwned=4",
        "pictureUrl": picture,
        "currentPricingInfo": {"model": MARKUP, "pricePerUnit": MARKUP, "unitName": MARKUP},
        "stats": {"totalUsers": MARKUP, "actorReviewRating": MARKUP, "actorReviewCount": MARKUP},
    }
    async with showing(browser, PAGE) as host:
        await host.give_result(search([hostile], query=MARKUP))
        await expect(host.frame.get_by_role("heading", level=2)).to_have_text(MARKUP)
        await expect(host.frame.get_by_role("button", name="Open in Store")).to_have_count(0)
        assert await host.frame.locator("img").count() == 0
        await is_unharmed(host)
        await host.give_result(details(MARKUP, **hostile))
        await expect(host.frame.get_by_role("region", name="Documentation")).to_have_text(MARKUP)
        await is_unharmed(host)


HOSTILE_READMES = {
    "scripts": f"# {MARKUP}\n\n| {MARKUP} |\n|---|\n| {MARKUP} |\n\n- {MARKUP}\n\n```\n{MARKUP}\n```\n> {MARKUP}",
    "links": f"[{MARKUP}](javascript:window.pwned=5) [a](JaVaScRiPt:alert(1)) ![b](https://evil.example/b.png) "
    "[c](data:text/html,x) [d](//evil.example) [e](vbscript:x)",
    "brackets": "[" * 4_000 + "\n" + "](" * 2_000 + "\n" + "![" * 2_000 + "\n" + "[a](" * 1_000,
    "one line of brackets": "[a](b" * 20_000,
    "stars": ("**a" * 1_500 + "\n") * 20,
    "ticks": ("`" * 4_999 + "\n") * 20,
    "headings": "\n".join("#" * (number % 9) + " x " + "#" * 200 for number in range(2_000)),
    "tables": "|a" * 2_000 + "|\n" + "|-" * 2_000 + "|\n" + ("|b" * 20 + "|\n") * 500,
    "lists": "\n".join(" " * (number % 30) + "- x" for number in range(5_000)),
    "an open fence": "```" + "\nx" * 20_000,
    "controls": "\u0000\u202e\ufeff\u2028# x\r\r\n" * 500,
    "no text": "",
}


ALWAYS = ("scripts", "links", "brackets", "tables")


@pytest.mark.parametrize(
    "readme", [pytest.param(name, marks=() if name in ALWAYS else pytest.mark.thorough) for name in HOSTILE_READMES]
)
async def test_a_hostile_readme_is_text_and_keeps_nothing_waiting(browser: Browser, readme: str) -> None:
    async with showing(browser, PAGE) as host:
        await host.give_result(details(HOSTILE_READMES[readme]))
        await expect(host.frame.get_by_role("heading", level=2)).to_have_text("Google Maps Scraper")
        assert await host.frame.locator(".readme img, .readme a, .readme script").count() == 0
        assert await host.frame.locator(".readme .link").count() == 0, "no link leads to a web page"
        await is_unharmed(host)
        # The page is one thread: what holds it holds this, too.
        await host.give_result(search())
        await expect(host.frame.get_by_role("listitem")).to_have_count(4)


async def test_the_policy_allows_pictures_of_the_store_and_nothing_else(browser: Browser) -> None:
    async with showing(browser, PAGE) as host:
        await host.give_result(details(README))
        blocked = await host.frame.evaluate(
            """async (picture) => {
              const blocked = [];
              document.addEventListener("securitypolicyviolation", (event) => blocked.push(event.effectiveDirective));
              const add = (tag, properties) =>
                document.body.append(Object.assign(document.createElement(tag), properties));
              add("img", { src: picture });
              add("img", { src: "https://evil.example/x.png" });
              add("img", { src: "http://images.apifyusercontent.com/x.png" });
              add("script", { textContent: "window.pwned = 1" });
              add("iframe", { src: "https://evil.example/" });
              await fetch(picture).catch(() => {});
              // The browser tells when it has got round to it.
              while (blocked.length < 5) await new Promise((resolve) => setTimeout(resolve, 20));
              return blocked;
            }""",
            PICTURE,
        )
        assert sorted(blocked) == ["connect-src", "frame-src", "img-src", "img-src", "script-src-elem"]
        assert host.requests == [PICTURE]
        assert await host.frame.evaluate("window.pwned") is None
