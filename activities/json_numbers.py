"""Numbers in JSON that would not arrive as they were sent: each is refused, with the path to it. Parsers read whole
numbers beyond 64 bits as a float, or not at all; a number that is too large for a float as infinity; one that is too
small as 0. NaN and Infinity are not JSON (RFC 8259), and come out as null.
"""

import json
import math
from typing import Any, cast

from outlast.activities.contracts import Violation

MIN_INTEGER, MAX_INTEGER = -(2**63), 2**64 - 1
_MAX_DIGITS = 20
_MAX_SHOWN = 40
_CHUNK_BYTES = 1024 * 1024
"""Bytes that are looked at in one go: other threads run in between."""
_DIGITS = b"0" * 19
_EXPONENTS = (b"e000", b"e+000")
_NAMES = (b"NaN", b"Infinity")
_CONSTANTS = frozenset({"NaN", "Infinity", "-Infinity", "nan", "inf", "-inf"})
_LONGEST = len(_DIGITS)
_ALIKE = bytes.maketrans(b"123456789E-", b"000000000e+")


class _Unrepresentable(str):
    """The text of a number that no parser keeps, in its place among the values."""

    __slots__ = ()


def number_flaws(body: bytes) -> tuple[Violation, ...]:
    """The numbers in JSON text that are refused. Nothing for what is no JSON, which its parser refuses. Almost no text
    needs more than a search for the form of such numbers.
    """
    if b"\0" in body:  # UTF-16 or UTF-32, in which they look different
        body = body.decode(json.detect_encoding(body), "replace").encode()
    if not _may_have_flaws(body):
        return ()
    try:
        value = json.loads(body, parse_int=_integer, parse_float=_float, parse_constant=_Unrepresentable)
    except (ValueError, RecursionError):
        return ()
    return number_flaws_in(value)


def exact_json(text: str) -> Any:
    """Return the value of JSON text. Raises `ValueError` for what is no JSON, and for numbers that are refused."""
    if flaws := number_flaws(text.encode(errors="surrogatepass")):
        raise ValueError(f"{flaws[0].path or 'The value'}: {flaws[0].message}")
    try:
        return json.loads(text)
    except RecursionError as error:
        raise ValueError("The JSON is nested too deeply.") from error


def number_flaws_in(document: object) -> tuple[Violation, ...]:
    """As `number_flaws`, in JSON that is parsed already."""
    found: list[Violation] = []
    level: list[tuple[tuple[str | int, ...], object]] = [((), document)]
    while level:
        place, value = level.pop()
        match value:
            case dict():
                level += [((*place, str(name)), part) for name, part in cast(dict[Any, object], value).items()]
            case list() | tuple():
                level += [((*place, index), part) for index, part in enumerate(cast(list[object], value))]
            case _Unrepresentable():
                found.append(Violation.at(place, _message(value)))
            case bool():
                pass
            case int() if not MIN_INTEGER <= value <= MAX_INTEGER:
                found.append(Violation.at(place, _message("")))
            case float() if not math.isfinite(value):
                found.append(Violation.at(place, _message(str(value))))
            case _:
                pass
    return tuple(found)


def _may_have_flaws(body: bytes) -> bool:
    for start in range(0, max(len(body), 1), _CHUNK_BYTES):
        chunk = body[start : start + _CHUNK_BYTES + _LONGEST]
        if any(name in chunk for name in _NAMES):
            return True
        alike = chunk.translate(_ALIKE)
        if _DIGITS in alike or any(exponent in alike for exponent in _EXPONENTS):
            return True
    return False


def _integer(text: str) -> int | _Unrepresentable:
    # The length first: to read a number of a million digits takes seconds.
    value = int(text) if len(text) <= _MAX_DIGITS else None
    return value if value is not None and MIN_INTEGER <= value <= MAX_INTEGER else _Unrepresentable(text)


def _float(text: str) -> float | _Unrepresentable:
    value = float(text)
    is_lost = not value and any(digit in text.lower().partition("e")[0] for digit in "123456789")
    return _Unrepresentable(text) if is_lost or not math.isfinite(value) else value


def _message(text: str) -> str:
    shown = f"{text[:_MAX_SHOWN]}…" if len(text) > _MAX_SHOWN else text
    if text in _CONSTANTS:
        return f"{text} is not a JSON number."
    subject = f"The number {shown}" if shown else "An integer beyond 64 bits"
    return f"{subject} cannot be stored exactly: send a finite number, an integer within 64 bits, or a string."
