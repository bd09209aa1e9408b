"""The tabs of a browser for the tool `list_tabs`. Only what the call needs is read from the browser."""

import asyncio
import ipaddress
import itertools
import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import WebSocketException

from outlast.cli.options import BadInput

CONNECT_SECONDS = 5.0
CALL_SECONDS = 5.0
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024

JsonObject = dict[str, Any]


class BrowserError(Exception):
    """The browser cannot be reached, or refuses; the message contains the remedy."""


class DevTools:
    """One connection to a browser."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[JsonObject]] = {}
        self._reader = asyncio.create_task(self._read_messages())

    async def call(self, method: str, *, session_id: str | None = None, **params: Any) -> JsonObject:
        """Return the result of a command. Raises `BrowserError`, also after `CALL_SECONDS` without a response."""
        number = next(self._numbers)
        message: JsonObject = {"id": number, "method": method, "params": params}
        if session_id is not None:
            message["sessionId"] = session_id
        answer = self._waiting[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(CALL_SECONDS):
                await self._socket.send(json.dumps(message))
                return await answer
        except TimeoutError as error:
            raise BrowserError(f"The browser does not answer {method}.") from error
        except (WebSocketException, OSError) as error:
            raise BrowserError("The connection to the browser was lost.") from error
        finally:
            self._waiting.pop(number, None)

    async def close(self) -> None:
        """End the connection; the browser keeps running."""
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader

    async def _read_messages(self) -> None:
        try:
            async for message in self._socket:
                self._take(json.loads(message))
        except (WebSocketException, OSError, ValueError):
            pass  # Open calls get the error below.
        finally:
            for answer in self._waiting.values():
                if not answer.done():
                    answer.set_exception(BrowserError("The connection to the browser was lost."))

    def _take(self, message: JsonObject) -> None:
        answer = self._waiting.get(message.get("id", 0))
        if answer is None or answer.done():
            return
        if "error" in message:
            answer.set_exception(BrowserError(str(message["error"].get("message", "The browser refused."))))
        else:
            answer.set_result(message.get("result", {}))


@asynccontextmanager
async def devtools_of(browser_url: str) -> AsyncGenerator[DevTools]:
    """Connect to the browser with its debugging port at `browser_url`. Raises `BrowserError`."""
    address = await _socket_address(browser_url)
    try:
        socket = await connect(
            address, proxy=None, open_timeout=CONNECT_SECONDS, close_timeout=1, max_size=_MAX_MESSAGE_BYTES
        )
    except (WebSocketException, OSError, TimeoutError) as error:
        raise BrowserError(f"The browser at {browser_url} refuses the connection.") from error
    async with socket:
        devtools = DevTools(socket)
        try:
            yield devtools
        finally:
            await devtools.close()


def checked_browser_url(url: str, *, allow_remote: bool) -> str:
    """Return `url` as the address of a debugging port. Raises `BadInput`, also for other machines unless allowed."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise BadInput(f"{url!r} is not the address of a browser.", hint=_EXAMPLE) from error
    if not usable or parts.username or parts.path.strip("/") or parts.query:
        raise BadInput("This is not the address of a browser's debugging port.", hint=_EXAMPLE)
    if not allow_remote and not _is_loopback(parts):
        raise BadInput(
            f"The browser at {parts.hostname} is on another machine; whoever reaches its debugging port controls it.",
            hint="Forward the port over SSH, or, if only you use the network, add --allow-remote-browser.",
        )
    return url.rstrip("/")


_EXAMPLE = "An example: http://127.0.0.1:9222"


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _socket_address(browser_url: str) -> str:
    """Return the address of the browser's own target: its path, at the host of `browser_url`."""
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=CONNECT_SECONDS) as http:
            response = await http.get(f"{browser_url}/json/version")
            path = urlsplit(str(response.raise_for_status().json()["webSocketDebuggerUrl"])).path
    except httpx.TransportError as error:
        raise BrowserError(
            f"No browser answers at {browser_url}. Start it with --remote-debugging-port and a separate "
            "--user-data-dir, or give another address with --browser-url."
        ) from error
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise BrowserError(f"{browser_url} is not the debugging port of a browser.") from error
    return f"ws{browser_url.removeprefix('http')}{path}"


MAX_TABS = 2_000
MAX_URL_CHARS = 1_000
MAX_TITLE_CHARS = 200
MAX_PROBLEM_CHARS = 500
"""Limits of the server; a test compares them."""

STATE_SECONDS = 1.0
"""Time for a page to report whether it is loading. A page that takes longer counts as loading."""
ALL_STATES_SECONDS = 15.0
_AT_ONCE = 32


@dataclass(frozen=True)
class Wanted:
    """Properties that a call of `list_tabs` needs beside title and address."""

    windows: bool = False
    loading: bool = False
    normal: bool = True
    incognito: bool = False

    @classmethod
    def by(cls, parameters: Mapping[str, Any]) -> "Wanted":
        """Return what a call with these arguments needs. Incognito windows must be asked for explicitly."""
        sorts, mode = (parameters.get("groupBy"), parameters.get("orderBy")), parameters.get("mode")
        return cls(
            windows=parameters.get("windowId") is not None or "window" in sorts or "windowId" in sorts,
            loading=parameters.get("loading") is not None or "loading" in sorts,
            normal=mode != "incognito",
            incognito=mode == "incognito" or (mode is None and "mode" in sorts),
        )


async def answer_with_tabs(browser_url: str, parameters: Mapping[str, Any]) -> JsonObject:
    """Return the answer to the handoff: the tabs, or the reason why they cannot be listed."""
    try:
        async with asyncio.timeout(2 * ALL_STATES_SECONDS), devtools_of(browser_url) as browser:
            return await collected(browser, Wanted.by(parameters))
    except BrowserError as error:
        problem = str(error)
    except TimeoutError:
        problem = f"The browser at {browser_url} takes too long to list its tabs."
    return {"tabs": [], "omitted": 0, "problem": problem[:MAX_PROBLEM_CHARS]}


async def collected(browser: DevTools, wanted: Wanted) -> JsonObject:
    """Return the wanted tabs of `browser`. Raises `BrowserError`."""
    contexts = await browser.call("Target.getBrowserContexts")
    targets: list[JsonObject] = (await browser.call("Target.getTargets"))["targetInfos"]
    pages = [
        target
        for target in targets
        if _is_tab(target) and (wanted.incognito if _is_incognito(target, contexts) else wanted.normal)
    ]
    shown = pages[:MAX_TABS]
    states = asyncio.create_task(_loading(browser, shown if wanted.loading else []))
    windows = [await _window_id(browser, page) if wanted.windows else 0 for page in shown]
    loading = await states
    tabs = [
        {
            "id": page["targetId"],
            "windowId": window_id,
            "title": _cut(str(page["title"]), MAX_TITLE_CHARS),
            "url": _cut(str(page["url"]), MAX_URL_CHARS),
            "mode": "incognito" if _is_incognito(page, contexts) else "normal",
            "loading": loading.get(page["targetId"], True) if wanted.loading else None,
        }
        for page, window_id in zip(shown, windows, strict=True)
        if window_id is not None
    ]
    return {"tabs": tabs, "omitted": len(pages) - len(shown), "problem": None}


def _is_tab(target: JsonObject) -> bool:
    """Return whether a user sees the page as a tab: not a preloaded page, nor the developer tools."""
    return target["type"] == "page" and not target.get("subtype") and not str(target["url"]).startswith("devtools://")


def _is_incognito(page: JsonObject, contexts: JsonObject) -> bool:
    """Return whether the page has other cookies than the profile of the browser."""
    context, default = page.get("browserContextId"), contexts.get("defaultBrowserContextId")
    if default is None:  # a browser older than 2025
        return context in contexts.get("browserContextIds", [])
    return context is not None and context != default


async def _window_id(browser: DevTools, page: JsonObject) -> int | None:
    """Return the number of the window, 0 for a page without a window; None for a page that has been closed."""
    try:
        return (await browser.call("Browser.getWindowForTarget", targetId=page["targetId"]))["windowId"]
    except BrowserError as error:
        return None if "No target" in str(error) else 0


async def _loading(browser: DevTools, pages: list[JsonObject]) -> Mapping[str, bool]:
    """Return by id whether pages are loading, without those that do not answer in time."""
    states: dict[str, bool] = {}
    at_once = asyncio.Semaphore(_AT_ONCE)

    async def ask(target_id: str) -> None:
        async with at_once:
            states[target_id] = await _is_loading(browser, target_id)

    asked = [asyncio.create_task(ask(page["targetId"])) for page in pages]
    if asked:
        _, late = await asyncio.wait(asked, timeout=ALL_STATES_SECONDS)
        for task in late:
            task.cancel()
    return states


async def _is_loading(browser: DevTools, target_id: str) -> bool:
    """Return whether the document of the page is incomplete, or the page does not answer."""
    try:
        async with asyncio.timeout(STATE_SECONDS):
            session_id = (await browser.call("Target.attachToTarget", targetId=target_id, flatten=True))["sessionId"]
            answer = await browser.call("Runtime.evaluate", session_id=session_id, expression="document.readyState")
            await browser.call("Target.detachFromTarget", sessionId=session_id)
    except (BrowserError, TimeoutError):
        return True
    return answer.get("result", {}).get("value") != "complete"


def _cut(text: str, limit: int) -> str:
    """Return at most `limit` characters, with an ellipsis if some are missing; never half a character."""
    whole = text.encode("utf-8", errors="replace").decode()
    return whole if len(whole) <= limit else whole[: limit - 1] + "…"
