"""A browser's DevTools protocol: commands and their answers, over one WebSocket."""

import asyncio
import ipaddress
import itertools
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
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
