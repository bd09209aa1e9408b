"""Reads request bodies, and checks their size, structure, text and numbers before a route parses them.

A parser and a validator hold the event loop while they work, and need a hundred bytes of memory for two bytes of text.
Counting the values needs a fraction of that time.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

from fastapi.responses import JSONResponse
from starlette.requests import Request
from starlette.types import Message, Receive, Scope

from outlast.activities.json_numbers import number_flaws
from outlast.activities.media import kind_of
from outlast.activities.unicode_text import valid_json_text, valid_text
from outlast.api.access.limits.caller_limits import BodySlot, CallerSlots
from outlast.api.http.exchange import SAFE_METHODS, Exchange
from outlast.api.http.problems import body_too_complex, body_too_large, invalid_request, problem_response

TEXT_WAS_REPLACED: ContextVar[bool] = ContextVar("text_was_replaced", default=False)
"""True if invalid Unicode was replaced in the body of the current request."""
_CHUNK_BYTES = 1024 * 1024
"""Bytes that are checked at a time: other threads run in between."""
_BRACKETS = b"[]{}"
_BLANKS = b" \t\r\n"
_NOT_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))


@dataclass(frozen=True)
class JsonLimits:
    """Limits of the structure of a body. A value is an element of an array, or an entry of an object."""

    max_values: int
    max_depth: int

    def excess(self, body: bytes) -> str | None:
        """Return a sentence about the limit that `body` exceeds; None if it exceeds none or is not JSON."""
        if not self._may_exceed(body):
            return None
        body = in_utf8(body).replace(b"\\\\", b"").replace(b'\\"', b"")
        if body.count(b'"') > 4 * (self.max_values + 1):
            return self._too_many
        # A quote stands for each string, so that an array of one string does not look empty.
        structure = b'"'.join(_outside_of_strings(body)).translate(None, _BLANKS)
        if _values_in(structure) > self.max_values:
            return self._too_many
        return self._too_deep if _is_deeper(structure.translate(None, _NOT_BRACKETS), self.max_depth) else None

    def excess_in(self, document: object) -> str | None:
        """Check parsed JSON as `excess` does."""
        values, depth = 0, 0
        level: Collection[object] = (document,)
        while containers := [parts for value in level if (parts := _parts_of(value)) is not None]:
            depth += 1
            level = [part for parts in containers for part in parts]
            values += len(level)
            if depth > self.max_depth:
                return self._too_deep
            if values > self.max_values:
                return self._too_many
        return None

    def _may_exceed(self, body: bytes) -> bool:
        opened = body.count(b"{") + body.count(b"[")
        return opened > self.max_depth or opened + body.count(b",") > self.max_values

    @property
    def _too_many(self) -> str:
        return (
            f"The body has more than {self.max_values} values (elements of arrays and entries of objects). "
            "Put large inputs into a key-value store or a dataset and pass its id."
        )

    @property
    def _too_deep(self) -> str:
        return f"The body is nested more than {self.max_depth} levels deep."


def in_utf8(body: bytes) -> bytes:
    """Convert `body` to UTF-8: UTF-16 and UTF-32, which parsers accept too, hide its structure."""
    encoding = json.detect_encoding(body)
    if encoding.startswith("utf-8"):
        return body
    return valid_text(body.decode(encoding, "replace")).encode() or body


def _outside_of_strings(body: bytes) -> list[bytes]:
    """Return the text outside of strings in JSON without escaped quotes."""
    found: list[bytes] = []
    inside = False
    for start in range(0, len(body), _CHUNK_BYTES):
        parts = body[start : start + _CHUNK_BYTES].split(b'"')
        found += parts[inside::2]
        inside ^= len(parts) % 2 == 0
    return found


def _parts_of(value: object) -> Collection[object] | None:
    """Return the values in an object or array; None for other values."""
    match value:
        case dict():
            return cast(dict[str, object], value).values()
        case list():
            return cast(list[object], value)
        case _:
            return None


def _values_in(structure: bytes) -> int:
    """Count elements and entries: one for each comma, and one more for each array or object that is not empty."""
    opened = structure.count(b"{") + structure.count(b"[")
    return structure.count(b",") + opened - structure.count(b"{}") - structure.count(b"[]")


def _is_deeper(brackets: bytes, levels: int) -> bool:
    """Return True if brackets are left after the innermost ones were removed `levels` times."""
    for _ in range(levels):
        if not brackets:
            return False
        # Marks first: the brackets around a removed pair belong to the next level.
        brackets = brackets.replace(b"[]", b"-").replace(b"{}", b"-").translate(None, b"-")
    return brackets.count(b"[") + brackets.count(b"{") > 0


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
