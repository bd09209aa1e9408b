"""Limits of the depth of JSON and of its number of values, checked before a parser reads it.

A parser and a validator hold the event loop while they work, and need a hundred bytes of memory for two bytes of text.
Counting needs a fraction of that time.
"""

import json
from collections.abc import Collection
from contextvars import ContextVar
from dataclasses import dataclass
from typing import cast

from outlast.activities.unicode_text import valid_text

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
