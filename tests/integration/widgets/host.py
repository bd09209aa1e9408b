"""A host in a real browser: it shows a widget in a sandboxed frame and speaks MCP Apps with it."""

import inspect
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from playwright.async_api import Browser, Frame, Page, Route, async_playwright, expect

from tests.support.eventually import eventually
from tests.support.needs import require

CHROMIUM = "/usr/bin/chromium-headless-shell"
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"]
HOST_URL = "http://host.test/"
_EXPECT_TIMEOUT_MS = 60_000
"""How long expectations of a page wait: long enough for a machine with much other load."""
expect.set_options(timeout=_EXPECT_TIMEOUT_MS)
_HOST_PAGE = Path(__file__).with_name("host.html")

JsonObject = dict[str, Any]
Tool = Callable[[JsonObject], JsonObject | Awaitable[JsonObject]]
Surface = Callable[[str, JsonObject], Awaitable[JsonObject]]
"""A server: it gives the result of `tools/call`, or raises what the host answers as an error."""


class RefusedByHost(Exception):
    """Makes the host answer with an error."""


class WidgetHost:
    """One widget on one page. `tools` or a `surface` answer its `tools/call`; what it says is in `heard()`."""

    def __init__(
        self, page: Page, tools: Mapping[str, Tool], context: JsonObject, surface: Surface | None = None
    ) -> None:
        self.page = page
        self.tools = tools
        self._surface = surface
        self.calls: list[tuple[str, JsonObject]] = []
        self.requests: list[str] = []
        self._context = context

    @property
    def frame(self) -> Frame:
        """The widget's frame."""
        return self.page.frames[1]

    async def open(self, html: str) -> None:
        """Show the widget and return when it has introduced itself."""
        await self.page.expose_function("answerFromTest", self._answer)
        await self.page.route("**/*", self._serve)
        await self.page.goto(HOST_URL)
        await self.page.evaluate("html => open(html)", html)
        await eventually(self._initialized)

    async def heard(self, method: str | None = None) -> list[JsonObject]:
        """What the widget has said so far."""
        messages: list[JsonObject] = await self.page.evaluate("heard")
        return [each for each in messages if method is None or each.get("method") == method]

    async def first(self, method: str) -> JsonObject:
        """The parameters of the first message of a method, awaited."""

        async def said() -> JsonObject | None:
            return next(iter(await self.heard(method)), None)

        return (await eventually(said))["params"]

    async def notify(self, method: str, **params: Any) -> None:
        """Tell the widget something."""
        await self.page.evaluate("message => tell(message)", {"method": method, "params": params})

    async def give_answer(self, answer: JsonObject) -> None:
        """The answer of the tool call that the widget was opened for, as a server gave it."""
        await self.notify("ui/notifications/tool-input", arguments={})
        await self.notify("ui/notifications/tool-result", **answer)

    async def give_result(self, structured: JsonObject | None, text: str = "", *, is_error: bool = False) -> None:
        """The answer of the tool call that the widget was opened for."""
        content = [{"type": "text", "text": text}]
        result: JsonObject = {"content": content, "isError": is_error}
        if structured is not None:
            result["structuredContent"] = structured
        await self.give_answer(result)

    def calls_of(self, tool: str) -> list[JsonObject]:
        """The arguments of the calls of one tool."""
        return [arguments for name, arguments in self.calls if name == tool]

    async def _initialized(self) -> list[JsonObject]:
        return await self.heard("ui/notifications/initialized")

    async def _answer(self, method: str, params: JsonObject) -> JsonObject:
        if method == "ui/initialize":
            capabilities = {"serverTools": {}, "openLinks": {}}
            info = {"name": "test-host", "version": "1"}
            return {
                "protocolVersion": "2026-01-26",
                "hostCapabilities": capabilities,
                "hostInfo": info,
                "hostContext": self._context,
            }
        if method != "tools/call":
            return {}
        name, arguments = params["name"], params["arguments"]
        self.calls.append((name, arguments))
        if self._surface is not None:
            return await self._surface(name, arguments)
        structured = self.tools[name](arguments)
        return {
            "content": [],
            "structuredContent": await structured if inspect.isawaitable(structured) else structured,
        }

    async def _serve(self, route: Route) -> None:
        """The host's own page, and nothing else; what the policy blocks does not get here."""
        if route.request.url == HOST_URL:
            await route.fulfill(body=_HOST_PAGE.read_text(), content_type="text/html")
            return
        self.requests.append(route.request.url)
        await route.abort()


@asynccontextmanager
async def running_chromium() -> AsyncGenerator[Browser]:
    """Debian's Chromium without a window, which is what Playwright starts by default."""
    require("chromium-headless-shell")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def showing(
    browser: Browser,
    html: str,
    *,
    tools: Mapping[str, Tool] | None = None,
    surface: Surface | None = None,
    width: int = 760,
    scale: float = 1,
    context: JsonObject | None = None,
    before: Callable[[Page], Awaitable[None]] | None = None,
) -> AsyncGenerator[WidgetHost]:
    """A widget in a browser window of its own; `before` prepares the page."""
    theme = "dark" if (context or {}).get("theme") == "dark" else "light"
    window = await browser.new_context(
        viewport={"width": width, "height": 900}, color_scheme=theme, device_scale_factor=scale, locale="en-US"
    )
    page = await window.new_page()
    host = WidgetHost(page, tools or {}, context or {"theme": "light", "locale": "en-US"}, surface)
    try:
        if before is not None:
            await before(page)
        await host.open(html)
        yield host
    finally:
        await window.close()
