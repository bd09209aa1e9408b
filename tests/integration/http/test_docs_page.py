"""The interactive page at /docs works in a browser that reaches nothing but the API."""

import httpx
from playwright.async_api import Route, expect

from tests.integration.widgets.host import running_chromium


async def test_the_page_shows_the_operations_with_every_other_address_blocked(api: httpx.AsyncClient) -> None:
    blocked: list[str] = []
    problems: list[str] = []

    async def only_the_api(route: Route) -> None:
        if route.request.url.startswith(str(api.base_url)):
            await route.continue_()
        else:
            blocked.append(route.request.url)
            await route.abort()

    document = (await api.get("/openapi.json")).json()
    operations = sum(len(path) for path in document["paths"].values())
    async with running_chromium() as browser:
        page = await browser.new_page()
        page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(str(error)))
        await page.route("**", only_the_api)
        await page.goto(f"{api.base_url}/docs")

        await expect(page.locator(".opblock")).to_have_count(operations, timeout=60_000)
        await expect(page.locator('[data-path="/v1/tasks"]').first).to_be_visible()

    assert [address for address in blocked if not address.startswith("data:")] == []
    assert [problem for problem in problems if "favicon" not in problem] == []


async def test_the_page_may_load_nothing_from_elsewhere(api: httpx.AsyncClient) -> None:
    policy = (await api.get("/docs")).headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "http" not in policy


async def test_there_is_no_page_that_needs_a_cdn(api: httpx.AsyncClient) -> None:
    assert (await api.get("/redoc")).status_code == 404
