"""Reads request bodies, and checks their size, structure, text and numbers before a route parses them."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress

from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.types import Message, Receive, Scope

from outlast.activities.json_numbers import number_flaws
from outlast.activities.media import kind_of
from outlast.activities.unicode_text import valid_json_text
from outlast.api.access.limits.caller_slots import BodySlot, CallerSlots
from outlast.api.http.exchange import SAFE_METHODS, Exchange
from outlast.api.http.json_limits import TEXT_WAS_REPLACED, JsonLimits, in_utf8
from outlast.api.http.problems import body_too_complex, body_too_large, invalid_request, problem_response

_STREAMED = frozenset({("POST", "/v1/batches/uploads")})
"""Requests whose routes read the body as a stream, and check it themselves: it is larger, and not one JSON document."""
_MCP = "/mcp"
_SMALL_BYTES = 64 * 1024
_DISCARD_SECONDS = 10
_DISCARDED_TIMES = 8
"""Time for, and multiple of the limit of, what is still read of a refused body before the connection is cut: many
clients read no response before they have sent the whole body."""


class BodyChecks:
    """Limits of request bodies. Never holds more than `max_bytes` of one."""

    def __init__(self, max_bytes: int, structure: JsonLimits, slots: CallerSlots) -> None:
        """Check the large bodies of each caller one after another, in `slots`."""
        self._max_bytes = max_bytes
        self._structure = structure
        self._slots = slots

    @asynccontextmanager
    async def checked(self, exchange: Exchange, caller_id: str) -> AsyncGenerator[JSONResponse | None]:
        """Read the body, and let the exchange receive it again; yield the refusal (413, 422) of a body that is refused.

        Replaces halves of characters, broken UTF-8 and NUL (`activities.unicode_text`). Refuses numbers that a parser
        would change, except at `/mcp`, where `mcp.posted_message` does with a JSON-RPC error. Raises
        `ClientDisconnect`.
        """
        if (exchange.method, exchange.path.rstrip("/")) in _STREAMED:
            yield None
            return
        pieces = Request(exchange.scope, exchange.receive).stream()
        announced = exchange.headers.get("content-length", "0")
        if announced.isdigit() and int(announced) > self._max_bytes:
            await self._discard(pieces)
            yield body_too_large(exchange.path, self._max_bytes)
            return
        if exchange.method in SAFE_METHODS:
            yield None
            return
        body = await self._read(pieces)
        if body is None:
            yield body_too_large(exchange.path, self._max_bytes)
            return
        slot = BodySlot(self._slots, caller_id)
        try:
            if len(body) <= _SMALL_BYTES:
                valid, refusal = self._check(exchange.scope, body)
            else:
                await slot.begin()
                valid, refusal = await asyncio.to_thread(self._check, exchange.scope, body)
            TEXT_WAS_REPLACED.set(valid is not body)
            exchange.receive = again({"type": "http.request", "body": valid, "more_body": False}, exchange.receive)
            yield refusal
        finally:
            slot.end()

    async def _read(self, pieces: AsyncGenerator[bytes]) -> bytes | None:
        """Return the whole body; None if it is too large."""
        read: list[bytes] = []
        size = 0
        async for piece in pieces:
            read.append(piece)
            size += len(piece)
            if size > self._max_bytes:
                read.clear()
                await self._discard(pieces)
                return None
        return b"".join(read)

    async def _discard(self, pieces: AsyncIterator[bytes]) -> None:
        left = _DISCARDED_TIMES * self._max_bytes
        with suppress(TimeoutError):
            async with asyncio.timeout(_DISCARD_SECONDS):
                async for piece in pieces:
                    left -= len(piece)
                    if left <= 0:
                        return

    def _check(self, scope: Scope, body: bytes) -> tuple[bytes, JSONResponse | None]:
        """Return the body with valid text (the same object if it was valid), and the refusal."""
        is_json = _is_json(scope)
        written = in_utf8(body) if is_json else body
        excess = self._structure.excess(written)
        if excess is not None:
            return body, body_too_complex(scope["path"], excess)
        if not is_json:
            return body, None
        valid = valid_json_text(written)
        flaws = number_flaws(valid) if scope["path"] != _MCP else ()
        return valid, problem_response(invalid_request(scope["path"], flaws)) if flaws else None


def again(message: Message, receive: Receive) -> Receive:
    """Return a `receive` that gives `message` first, and then what follows it."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return message

    return replayed


def _is_json(scope: Scope) -> bool:
    """Return True for a body that is read as JSON, as one without a type is."""
    content_type = dict(scope["headers"]).get(b"content-type", b"application/json").decode("latin-1")
    return kind_of(content_type) == "json"
