"""JSON bodies before a parser builds them: limits of their depth and number of values, valid text, and exact numbers.

A parser and a validator hold the event loop for as long as they work, and make a hundred bytes of memory of two bytes
of text. Counting needs a fraction of that time, and is done in a thread where the body is large.
"""

import asyncio
import json
from collections.abc import Collection
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.activities.json_numbers import number_flaws
from outlast.activities.media import kind_of
from outlast.activities.unicode_text import valid_json_text, valid_text
from outlast.api.access.limits.caller_slots import BodySlot, CallerSlots
from outlast.api.access.principal import Principal
from outlast.api.http.credentials_first import PRINCIPAL_STATE
from outlast.api.http.problems import invalid_request, problem_response
from outlast.api.http.streamed_bodies import is_streamed
from outlast.contracts.problems import Problem

TEXT_WAS_REPLACED: ContextVar[bool] = ContextVar("text_was_replaced", default=False)
"""Whether invalid Unicode was replaced in the body of the current request."""
_SMALL_BYTES = 64 * 1024
_CHUNK_BYTES = 1024 * 1024
"""Bytes that are checked at a time: other threads run in between."""
_BRACKETS = b"[]{}"
_BLANKS = b" \t\r\n"
_NOT_BRACKETS = bytes(set(range(256)) - set(_BRACKETS))
_MCP = "/mcp"
_WITHOUT_BODY = frozenset({"GET", "HEAD", "OPTIONS"})


@dataclass(frozen=True)
class JsonLimits:
    """How much structure a body may have. A value is an element of an array, or an entry of an object."""

    max_values: int
    max_depth: int

    def excess(self, body: bytes) -> str | None:
        """The limit that `body` exceeds, as a sentence; None when nothing is, or when it is no JSON."""
        if not self._may_exceed(body):
            return None
        body = _in_utf8(body).replace(b"\\\\", b"").replace(b'\\"', b"")
        if body.count(b'"') > 4 * (self.max_values + 1):
            return self._too_many
        # A quote stands for each string, so that what holds one is not taken for empty.
        structure = b'"'.join(_outside_of_strings(body)).translate(None, _BLANKS)
        if _values_in(structure) > self.max_values:
            return self._too_many
        return self._too_deep if _is_deeper(structure.translate(None, _NOT_BRACKETS), self.max_depth) else None

    def excess_in(self, document: object) -> str | None:
        """As `excess`, of JSON that is parsed already."""
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


class StructureLimit:
    """ASGI middleware; responds 422 to bodies over the limits, and passes the others on with valid text.

    Halves of characters, broken UTF-8 and NUL are replaced (`activities.unicode_text`); numbers that a parser would
    change are refused, those at `/mcp` by `mcp.posted_message` with a JSON-RPC error. Reads the whole body, so a limit
    of size comes first.
    """

    def __init__(self, app: ASGIApp, *, limits: JsonLimits, slots: CallerSlots) -> None:
        """Let bodies within `limits` through to `app`, the large ones of each caller in `slots`."""
        self._app = app
        self._limits = limits
        self._slots = slots

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http" or scope["method"] in _WITHOUT_BODY or is_streamed(scope):
            await self._app(scope, receive, send)
            return
        body = await _read_body(receive)
        if body is None:
            return
        if len(body) <= _SMALL_BYTES:
            await self._serve(*self._checked(scope, body), scope, receive, send)
            return
        principal: Principal | None = scope.get(PRINCIPAL_STATE)
        slot = BodySlot(self._slots, principal.caller.id if principal is not None else "")

        async def ending(message: Message) -> None:
            slot.end()
            await send(message)

        try:
            await slot.begin()
            checked = await asyncio.to_thread(self._checked, scope, body)
            await self._serve(*checked, scope, receive, ending)
        finally:
            slot.end()

    def _checked(self, scope: Scope, body: bytes) -> tuple[bytes, bool, Problem | None]:
        """The body to pass on, whether text was replaced in it, and why it is refused."""
        is_json = _is_json(scope)
        written = _in_utf8(body) if is_json else body
        excess = self._limits.excess(written)
        if excess is not None:
            return body, False, _problem(scope["path"], excess)
        if not is_json:
            return body, False, None
        valid = valid_json_text(written)
        flaws = number_flaws(valid) if scope["path"] != _MCP else ()
        return valid, valid is not written, invalid_request(scope["path"], flaws) if flaws else None

    async def _serve(
        self, body: bytes, replaced: bool, refusal: Problem | None, scope: Scope, receive: Receive, send: Send
    ) -> None:
        TEXT_WAS_REPLACED.set(replaced)
        if refusal is not None:
            await problem_response(refusal)(scope, receive, send)
        else:
            await self._app(scope, _again(body, receive), send)


async def _read_body(receive: Receive) -> bytes | None:
    """The whole body; None when the client has gone."""
    pieces: list[bytes] = []
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(pieces)


def _again(body: bytes, receive: Receive) -> Receive:
    """A `receive` that gives the body as one message, and then what comes after it."""
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return replayed


def _is_json(scope: Scope) -> bool:
    """Whether the body is read as JSON, as one without a type is, too."""
    content_type = dict(scope["headers"]).get(b"content-type", b"application/json").decode("latin-1")
    return kind_of(content_type) == "json"


def _in_utf8(body: bytes) -> bytes:
    """`body` in UTF-8: in UTF-16 and UTF-32, which parsers accept too, structure would look different."""
    encoding = json.detect_encoding(body)
    if encoding.startswith("utf-8"):
        return body
    return valid_text(body.decode(encoding, "replace")).encode() or body


def _outside_of_strings(body: bytes) -> list[bytes]:
    """The text outside of strings in JSON without escaped quotes."""
    found: list[bytes] = []
    inside = False
    for start in range(0, len(body), _CHUNK_BYTES):
        parts = body[start : start + _CHUNK_BYTES].split(b'"')
        found += parts[inside::2]
        inside ^= len(parts) % 2 == 0
    return found


def _parts_of(value: object) -> Collection[object] | None:
    """The values in an object or array; None for anything else."""
    match value:
        case dict():
            return cast(dict[str, object], value).values()
        case list():
            return cast(list[object], value)
        case _:
            return None


def _values_in(structure: bytes) -> int:
    """Elements of arrays and entries of objects: one for each comma, and one more in what is not empty."""
    opened = structure.count(b"{") + structure.count(b"[")
    return structure.count(b",") + opened - structure.count(b"{}") - structure.count(b"[]")


def _is_deeper(brackets: bytes, levels: int) -> bool:
    """Whether more than `levels` levels are left when the innermost ones are taken away, level by level."""
    for _ in range(levels):
        if not brackets:
            return False
        # Marks first: what a pair stood in is of the next level.
        brackets = brackets.replace(b"[]", b"-").replace(b"{}", b"-").translate(None, b"-")
    return brackets.count(b"[") + brackets.count(b"{") > 0


def _problem(path: str, detail: str) -> Problem:
    return Problem(
        type="urn:outlast:problem:body-too-complex",
        title="The body has too many or too deeply nested values",
        status=422,
        detail=detail,
        instance=path,
    )
