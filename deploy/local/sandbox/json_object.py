"""JSON as the platform reads and writes it: strings of JavaScript may hold halves of surrogate pairs."""

import json
import re
from typing import Any

import orjson

JsonObject = dict[str, Any]
"""A JSON object whose shape is Apify's."""


_MANY_DIGITS = re.compile(rb"\d{19}")
"""In each number beyond 64 bits, which orjson reads as a float."""


def parse(text: bytes) -> Any:
    """The value in `text`; halves of characters are kept, as JavaScript keeps them. Raises `ValueError`.

    Whole numbers of any size are kept, too: what reads them is tried with more than the platform may keep.
    """
    try:
        return json.loads(text, parse_constant=_refuse) if _MANY_DIGITS.search(text) else orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text, parse_constant=_refuse)


def parse_document(text: bytes) -> Any:
    """As `parse`, with U+FFFD for each half, as the platform's database has it. Raises `ValueError`."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        written = json.dumps(parse(text), ensure_ascii=False)
        return orjson.loads(written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def line_of(value: object) -> bytes:
    """`value` as JSON in one line with its end; half of a character as an escape (ECMAScript 2019)."""
    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
