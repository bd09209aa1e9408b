"""The tabs of a browser, as the server's `list_tabs` takes them. The browser is asked only for what the call wants."""

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

from outlast.cli.errors import BadInput

CONNECT_SECONDS = 5.0
CALL_SECONDS = 5.0
_MAX_MESSAGE_BYTES = 64 * 1024 * 1024

JsonObject = dict[str, Any]


class BrowserError(Exception):
    """The browser cannot be reached, or refuses; the message says what to do."""


class DevTools:
    """One connection to a browser."""

    def __init__(self, socket: ClientConnection) -> None:
        """Speak over `socket`."""
        self._socket = socket
        self._numbers = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[JsonObject]] = {}
        self._reader = asyncio.create_task(self._read_messages())

    async def call(self, method: str, *, session_id: str | None = None, **params: Any) -> JsonObject:
        """The result of a command. Raises `BrowserError`, also when no answer comes within `CALL_SECONDS`."""
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
        """Let go of the browser, which goes on."""
        self._reader.cancel()
        with suppress(asyncio.CancelledError):
            await self._reader

    async def _read_messages(self) -> None:
        try:
            async for message in self._socket:
                self._take(json.loads(message))
        except (WebSocketException, OSError, ValueError):
            pass  # The error below says what was awaited.
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
    """A connection to the browser whose debugging port is at `browser_url`. Raises `BrowserError`."""
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
    """`url` as the address of a debugging port. Raises `BadInput`; so it does for other machines, unless allowed."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError as error:
        raise BadInput(f"{url!r} is not the address of a browser.", hint=_READS_LIKE) from error
    if not usable or parts.username or parts.path.strip("/") or parts.query:
        raise BadInput("This is not the address of a browser's debugging port.", hint=_READS_LIKE)
    if not allow_remote and not _is_loopback(parts):
        raise BadInput(
            f"The browser at {parts.hostname} is on another machine; who reaches its debugging port controls it.",
            hint="Forward the port over SSH, or, if the network is yours alone, say --allow-remote-browser.",
        )
    return url.rstrip("/")


_READS_LIKE = "It reads like http://127.0.0.1:9222."


def _is_loopback(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


async def _socket_address(browser_url: str) -> str:
    """Where the browser's own target is: the path that it says, at the address that was named."""
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=CONNECT_SECONDS) as http:
            response = await http.get(f"{browser_url}/json/version")
            path = urlsplit(str(response.raise_for_status().json()["webSocketDebuggerUrl"])).path
    except httpx.TransportError as error:
        raise BrowserError(
            f"No browser answers at {browser_url}. Start it with --remote-debugging-port and a --user-data-dir of its "
            "own, or name another address with --browser-url."
        ) from error
    except (httpx.HTTPError, ValueError, KeyError, TypeError) as error:
        raise BrowserError(f"What answers at {browser_url} is not a browser's debugging port.") from error
    return f"ws{browser_url.removeprefix('http')}{path}"


MAX_TABS = 2_000
MAX_URL_CHARS = 1_000
MAX_TITLE_CHARS = 200
MAX_PROBLEM_CHARS = 500
"""What the server takes; a test compares them."""

STATE_SECONDS = 1.0
"""How long a page may take to say whether it is loading. One that is busy longer counts as loading."""
ALL_STATES_SECONDS = 15.0
_AT_ONCE = 32


@dataclass(frozen=True)
class Wanted:
    """What a call of `list_tabs` wants to know of the tabs, beside title and address."""

    windows: bool = False
    loading: bool = False
    normal: bool = True
    incognito: bool = False

    @classmethod
    def by(cls, parameters: Mapping[str, Any]) -> "Wanted":
        """What a call with these arguments wants. Incognito windows are left out unless it asks for them."""
        sorts, mode = (parameters.get("groupBy"), parameters.get("orderBy")), parameters.get("mode")
        return cls(
            windows=parameters.get("windowId") is not None or "window" in sorts or "windowId" in sorts,
            loading=parameters.get("loading") is not None or "loading" in sorts,
            normal=mode != "incognito",
            incognito=mode == "incognito" or (mode is None and "mode" in sorts),
        )


async def answer_with_tabs(browser_url: str, parameters: Mapping[str, Any]) -> JsonObject:
    """The answer to the hand-off: the tabs, or why they cannot be listed."""
    try:
        async with asyncio.timeout(2 * ALL_STATES_SECONDS), devtools_of(browser_url) as browser:
            return await collected(browser, Wanted.by(parameters))
    except BrowserError as error:
        problem = str(error)
    except TimeoutError:
        problem = f"The browser at {browser_url} takes too long to tell its tabs."
    return {"tabs": [], "omitted": 0, "problem": problem[:MAX_PROBLEM_CHARS]}


async def collected(browser: DevTools, wanted: Wanted) -> JsonObject:
    """The tabs of `browser` that are wanted. Raises `BrowserError`."""
    contexts = await browser.call("Target.getBrowserContexts")
    targets: list[JsonObject] = (await browser.call("Target.getTargets"))["targetInfos"]
    pages = [target for target in targets if _is_tab(target) and _is_wanted(target, contexts, wanted)]
    shown = pages[:MAX_TABS]
    states = asyncio.create_task(_loading(browser, shown if wanted.loading else []))
    windows = [await _window_id(browser, page) if wanted.windows else 0 for page in shown]
    loading = await states
    tabs = [
        _tab(
            page,
            window_id,
            is_incognito=_is_incognito(page, contexts),
            loading=loading.get(page["targetId"], True) if wanted.loading else None,
        )
        for page, window_id in zip(shown, windows, strict=True)
        if window_id is not None
    ]
    return {"tabs": tabs, "omitted": len(pages) - len(shown), "problem": None}


def _is_wanted(page: JsonObject, contexts: JsonObject, wanted: Wanted) -> bool:
    return wanted.incognito if _is_incognito(page, contexts) else wanted.normal


def _is_tab(target: JsonObject) -> bool:
    """Pages that a person sees as tabs: none that is only prepared, no developer tools."""
    return target["type"] == "page" and not target.get("subtype") and not str(target["url"]).startswith("devtools://")


def _is_incognito(page: JsonObject, contexts: JsonObject) -> bool:
    """Whether the page keeps its cookies apart from those of the browser's profile."""
    context, default = page.get("browserContextId"), contexts.get("defaultBrowserContextId")
    if default is None:  # a browser older than 2025
        return context in contexts.get("browserContextIds", [])
    return context is not None and context != default


async def _window_id(browser: DevTools, page: JsonObject) -> int | None:
    """The window's number, 0 for a page without one; None for a page that was closed meanwhile."""
    try:
        return (await browser.call("Browser.getWindowForTarget", targetId=page["targetId"]))["windowId"]
    except BrowserError as error:
        return None if "No target" in str(error) else 0


async def _loading(browser: DevTools, pages: list[JsonObject]) -> Mapping[str, bool]:
    """Which pages are loading, by id; those that could not say in time are left out."""
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
    """Whether the page's document is not complete, or is too busy to say."""
    try:
        async with asyncio.timeout(STATE_SECONDS):
            session_id = (await browser.call("Target.attachToTarget", targetId=target_id, flatten=True))["sessionId"]
            answer = await browser.call("Runtime.evaluate", session_id=session_id, expression="document.readyState")
            await browser.call("Target.detachFromTarget", sessionId=session_id)
    except (BrowserError, TimeoutError):
        return True
    return answer.get("result", {}).get("value") != "complete"


def _tab(page: JsonObject, window_id: int, *, is_incognito: bool, loading: bool | None) -> dict[str, Any]:
    return {
        "id": page["targetId"],
        "windowId": window_id,
        "title": _cut(str(page["title"]), MAX_TITLE_CHARS),
        "url": _cut(str(page["url"]), MAX_URL_CHARS),
        "mode": "incognito" if is_incognito else "normal",
        "loading": loading,
    }


def _cut(text: str, limit: int) -> str:
    """At most `limit` characters, with a mark where something is missing; without halves of characters."""
    whole = text.encode("utf-8", errors="replace").decode()
    return whole if len(whole) <= limit else whole[: limit - 1] + "…"
