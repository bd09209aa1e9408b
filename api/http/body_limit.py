"""Rejects request bodies over a limit, with or without a Content-Length header."""

import asyncio
from contextlib import suppress

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.api.http.problems import body_too_large
from outlast.api.http.streamed_bodies import is_streamed

_DRAIN_SECONDS = 10
_DRAIN_TIMES = 8
"""How long, and up to which multiple of the limit, the rest of a rejected body is read before the connection is cut."""


class _TooLarge(Exception):
    """More bytes arrived than are accepted."""


class BodyLimit:
    """ASGI middleware; answers 413 and never holds more than the limit."""

    def __init__(self, app: ASGIApp, *, max_bytes: int) -> None:
        """Let bodies up to `max_bytes` through to `app`."""
        self._app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or is_streamed(scope):
            await self._app(scope, receive, send)
            return
        announced = dict(scope["headers"]).get(b"content-length", b"0")
        if announced.isdigit() and int(announced) > self._max_bytes:
            await self._refuse(scope, receive, send)
            return
        await self._serve_counting(scope, receive, send)

    async def _serve_counting(self, scope: Scope, receive: Receive, send: Send) -> None:
        received = 0
        answered = False
        more = True

        async def counted() -> Message:
            nonlocal received, more
            message = await receive()
            received += len(message.get("body", b""))
            more = message.get("more_body", False)
            if received > self._max_bytes:
                raise _TooLarge
            return message

        async def noted(message: Message) -> None:
            nonlocal answered
            # The framework turns any exception during the read of a body into a response of its own.
            if answered or received <= self._max_bytes:
                answered = True
                await send(message)

        with suppress(_TooLarge):
            await self._app(scope, counted, noted)
        if not answered and received > self._max_bytes:
            await self._refuse(scope, receive, send, more=more)

    async def _refuse(self, scope: Scope, receive: Receive, send: Send, *, more: bool = True) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(_DRAIN_SECONDS):
                await _drain(receive, _DRAIN_TIMES * self._max_bytes if more else 0)
        await body_too_large(scope["path"], self._max_bytes)(scope, receive, send)


async def _drain(receive: Receive, max_bytes: int) -> None:
    """Discard the rest of a body: many clients read no response before they have sent the whole body."""
    while max_bytes > 0:
        message = await receive()
        max_bytes -= len(message.get("body", b""))
        if not message.get("more_body"):
            return
