"""JSON, times and identifiers as the platform writes them.

Strings of JavaScript may hold halves of surrogate pairs.
"""

import hashlib
import json
import re
import secrets
import string
import time
from datetime import UTC, datetime
from typing import Any

import orjson

JsonObject = dict[str, Any]
"""A JSON object whose shape is Apify's."""
_MANY_DIGITS = re.compile(rb"\d{19}")
"""In each number beyond 64 bits, which orjson reads as a float."""
_ALPHABET = string.ascii_letters + string.digits
_ID_LENGTH = 17


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


def now() -> float:
    """Seconds since the epoch, truncated to milliseconds so that the API shows exactly what is stored."""
    return time.time_ns() // 1_000_000 / 1000


def iso(timestamp: float) -> str:
    """An ISO 8601 timestamp in UTC with milliseconds and `Z`, the only form that the platform writes."""
    seconds, milliseconds = divmod(round(timestamp * 1000), 1000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds:03d}Z"


def iso_or_none(timestamp: float | None) -> str | None:
    """Like `iso`; None for None."""
    return None if timestamp is None else iso(timestamp)


def parse_iso(text: str) -> float:
    """The inverse of `iso`; also takes other ISO 8601 forms. Raises ValueError for anything else."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace(" ", "+"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def new_id() -> str:
    """A random id of 17 letters and digits, as on the platform."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))


def derived_id(*parts: str) -> str:
    """An ID in the form of `new_id`, derived from `parts`: the same parts give the same ID."""
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest())
    digits: list[str] = []
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
