"""Connections of clients: how long a request may take to arrive, and how many connections an address may have.

uvicorn limits neither. Without it, requests that are sent by halves would be held for ever.
"""

import asyncio
import fcntl
import json
import socket
import sys
import termios
from collections import Counter
from contextlib import suppress
from functools import partial
from typing import Any, ClassVar, Protocol, cast

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from outlast.api.access.limits.rate_limits import UNKNOWN, network_of
from outlast.api.metrics import ENDED_RESPONSES, LIMITED
from outlast.contracts.base import MEDIA_TYPE, Problem

KEEP_ALIVE_SECONDS = 75
"""Longer than the 60 s of the usual proxies, so that no proxy sends a request on a connection that is being closed."""
_PIECE_BYTES = 16 * 1024
"""Size of the pieces of a response. At most two are held for a client that does not read."""
_UNSENT_BYTES = 64 * 1024
_LOOKS = 4
"""Looks at the reader of a connection within the time in which it may take nothing."""
_EXTENSION = "outlast.connection"


class Connection(Protocol):
    """The connection of a request."""

    @property
    def is_full(self) -> bool:
        """True if the latest data waits for the client to read."""
        ...

    async def cut(self) -> None:
        """Close it at once. What was not sent is lost, so that the client notices that the response is not whole."""
        ...


class _UnknownConnection:
    """A connection of a server other than uvicorn with our protocol."""

    is_full = False

    async def cut(self) -> None:
        """Leave it to the server, which closes it when a response ends early."""


def connection_of(scope: Scope) -> Connection:
    """The connection that a request came over."""
    return scope.get("extensions", {}).get(_EXTENSION) or _UnknownConnection()


def limited_protocol(
    *, request_seconds: float, connections_per_address: int, unread_seconds: float = 60.0
) -> type[H11Protocol]:
    """The protocol for uvicorn's `http`. The head of a request, and then its body, may each take `request_seconds`.

    A connection is closed when its client has taken nothing for `unread_seconds` of what waits for it.
    """

    class Limited(_LimitedProtocol):
        _seconds = request_seconds
        _unread_seconds = unread_seconds
        _most = connections_per_address
        _open: ClassVar[Counter[str]] = Counter()

    return Limited


class _LimitedProtocol(H11Protocol):
    _seconds: float
    _unread_seconds: float
    _most: int
    _open: ClassVar[Counter[str]]
    _arriving: asyncio.TimerHandle | None = None
    _waits_for: object = None
    _address: str | None = None
    _is_lost = False
    _unread: asyncio.TimerHandle | None = None
    _unread_bytes = 0
    _unread_since = 0.0

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        app = cast(ASGIApp, self.app)

        async def with_connection(scope: Scope, receive: Receive, send: Send) -> None:
            scope.setdefault("extensions", {})[_EXTENSION] = self
            await app(scope, receive, partial(self._send_paced, send))

        self.app = cast(Any, with_connection)

    @property
    def is_full(self) -> bool:
        return self.flow.write_paused

    async def cut(self) -> None:
        self.transport.abort()
        while not self._is_lost:  # or uvicorn reports that the response is not whole
            await asyncio.sleep(0)

    async def _send_paced(self, send: Send, message: Message) -> None:
        """Send a body in pieces, each when the client has taken most of the one before, and wait for the last one."""
        body: bytes = message.get("body", b"")
        if len(body) > _PIECE_BYTES:
            view = memoryview(body)
            for start in range(0, len(body), _PIECE_BYTES):
                if self.transport.is_closing():
                    return
                is_last = start + _PIECE_BYTES >= len(body)
                more = not is_last or message.get("more_body", False)
                await send({**message, "body": view[start : start + _PIECE_BYTES], "more_body": more})
        else:
            await send(message)
        if message["type"] == "http.response.body":
            await self.flow.drain()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reader()

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]  # as its base
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=_PIECE_BYTES)
        _keep_little_unsent(transport)
        self._address = network_of(self.client[0] if self.client else UNKNOWN)
        self._open[self._address] += 1
        if self._open[self._address] > self._most:
            LIMITED.labels("connections_per_address").inc()
            self._refuse(429, "Too many connections", "Your address has too many connections; close some and retry.")
            return
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_lost = True
        self._stop()
        if self._unread is not None:
            self._unread.cancel()
        if self._address is not None:
            self._open[self._address] -= 1
            if self._open[self._address] <= 0:
                del self._open[self._address]
        super().connection_lost(exc)
        # They refer to this connection: without them it needs no garbage collector, which comes late.
        self.app = self.cycle = self.scope = cast(Any, None)

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        super().data_received(data)
        self._watch()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._watch()
        self._watch_reader()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_reader()

    def _watch(self) -> None:
        """Start the clock when a head or a body begins to arrive, and stop it when that is whole."""
        waits_for = None if self.transport.is_closing() else self._part_that_arrives()
        if waits_for == self._waits_for:
            return
        self._stop()
        self._waits_for = waits_for
        if waits_for is not None:
            self._arriving = self.loop.call_later(self._seconds, self._too_slow)

    def _watch_reader(self) -> None:
        """Start the clock when something waits for the client, also when the connection is being closed."""
        if self._unread is None and self.transport.get_write_buffer_size():
            self._unread_bytes, self._unread_since = _unread_bytes(self.transport), self.loop.time()
            self._look_at_reader_later()

    def _look_at_reader_later(self) -> None:
        self._unread = self.loop.call_later(self._unread_seconds / _LOOKS, self._look_at_reader)

    def _look_at_reader(self) -> None:
        self._unread = None
        if not self.transport.get_write_buffer_size():
            return
        unread = _unread_bytes(self.transport)
        if unread != self._unread_bytes:
            self._unread_bytes, self._unread_since = unread, self.loop.time()
        elif self.loop.time() - self._unread_since >= self._unread_seconds:
            ENDED_RESPONSES.labels("unread").inc()
            self.transport.abort()
            return
        self._look_at_reader_later()

    def _part_that_arrives(self) -> str | None:
        state = self.conn.their_state
        if state is h11.SEND_BODY:
            return "body"
        # Between two requests, nothing arrives: that silence has its own limit, `timeout_keep_alive`.
        is_silent = self.timeout_keep_alive_task is not None and not self.conn.trailing_data[0]
        return "head" if state is h11.IDLE and not is_silent else None

    def _too_slow(self) -> None:
        LIMITED.labels("request_seconds").inc()
        detail = f"The {self._waits_for} of the request did not arrive within {self._seconds:g} seconds."
        self._refuse(408, "The request took too long to arrive", detail)

    def _refuse(self, status: int, title: str, detail: str) -> None:
        """Answer if nothing has been answered yet, and close the connection."""
        if self.conn.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            slug = "too-many-requests" if status == 429 else "request-timeout"
            problem = Problem(type=f"urn:outlast:problem:{slug}", title=title, status=status, detail=detail)
            self.transport.write(_response(status, title, problem))
        self.transport.close()

    def _stop(self) -> None:
        if self._arriving is not None:
            self._arriving.cancel()
            self._arriving = None


def _keep_little_unsent(transport: asyncio.Transport) -> None:
    """Have the kernel take little more than it can send: its buffers grow to megabytes for clients that read slowly."""
    connection: socket.socket | None = transport.get_extra_info("socket")
    if connection is not None and hasattr(socket, "TCP_NOTSENT_LOWAT"):
        with suppress(OSError):  # no TCP, or a system without it
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)


def _unread_bytes(transport: asyncio.Transport) -> int:
    """The bytes that the client's machine has not taken: those that wait here, and those that wait in the kernel."""
    waiting, connection = transport.get_write_buffer_size(), transport.get_extra_info("socket")
    with suppress(OSError):
        sent = fcntl.ioctl(connection.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        waiting += int.from_bytes(sent, sys.byteorder)
    return waiting


def _response(status: int, title: str, problem: Problem) -> bytes:
    body = json.dumps(problem.model_dump(mode="json", exclude_none=True)).encode()
    retry = "Retry-After: 1\r\n" if status == 429 else ""
    head = (
        f"HTTP/1.1 {status} {title}\r\nContent-Type: {MEDIA_TYPE}\r\nContent-Length: {len(body)}\r\n"
        f"{retry}Connection: close\r\n\r\n"
    )
    return head.encode() + body
