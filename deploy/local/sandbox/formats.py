"""JSON, times and identifiers as the platform writes them. Strings of JavaScript may hold unpaired surrogates."""

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
"""JSON object with Apify's fields."""
_MANY_DIGITS = re.compile(rb"\d{19}")
"""Matches numbers beyond 64 bits, which orjson reads as floats."""
_ALPHABET = string.ascii_letters + string.digits
_ID_LENGTH = 17


def parse(text: bytes) -> Any:
    """Parse JSON and keep unpaired surrogates, as JavaScript does, and whole numbers of any size.

    Raises `ValueError`.
    """
    try:
        return json.loads(text, parse_constant=_refuse) if _MANY_DIGITS.search(text) else orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text, parse_constant=_refuse)


def parse_document(text: bytes) -> Any:
    """Parse JSON with U+FFFD for each unpaired surrogate, as the platform's database does. Raises `ValueError`."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        written = json.dumps(parse(text), ensure_ascii=False)
        return orjson.loads(written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def line_of(value: object) -> bytes:
    """Return `value` as one line of JSON with its line end; unpaired surrogates are escaped (ECMAScript 2019)."""
    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def now() -> float:
    """Return the seconds since the epoch, truncated to milliseconds so that the API shows the stored value."""
    return time.time_ns() // 1_000_000 / 1000


def iso(timestamp: float) -> str:
    """Format as ISO 8601 in UTC with milliseconds and `Z`, the only form that the platform writes."""
    seconds, milliseconds = divmod(round(timestamp * 1000), 1000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds:03d}Z"


def iso_or_none(timestamp: float | None) -> str | None:
    """Format as `iso` does; None for None."""
    return None if timestamp is None else iso(timestamp)


def parse_iso(text: str) -> float:
    """Invert `iso`; other ISO 8601 forms are accepted too. Raises `ValueError`."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace(" ", "+"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def new_id() -> str:
    """Return a random id of 17 letters and digits, as on the platform."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))


def derived_id(*parts: str) -> str:
    """Return an ID in the form of `new_id` that is derived from `parts`: the same parts give the same ID."""
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest())
    digits: list[str] = []
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")
