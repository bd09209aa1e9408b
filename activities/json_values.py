"""Parses and serialises JSON values of any origin without failing on unusual ones, and without changing numbers. orjson
reads a whole number beyond 64 bits as a float, without a word, and writes none. Imports nothing heavy: a subprocess
uses it.
"""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import orjson

DEEPEST = 100
"""Levels that Temporal's converter, pydantic and common clients can all parse."""
NESTED_NOTE = f"Values nested more than {DEEPEST} levels deep are given as text."
"""Tells the reader of an answer that it differs from its source."""

_LIMIT = " limit "
"""In orjson's messages for more than 1,024 levels: "Recursion limit reached", "depth limit exceeded"."""
_MANY_DIGITS = re.compile(rb"\d{19}")
"""In the text of each number beyond 64 bits."""


class NestedTooDeeply(ValueError):
    """No parser reads the JSON: it has more than 900 levels."""


def loads(text: bytes) -> Any:
    """Return the JSON value in `text`, with whole numbers of any size. Raises `NestedTooDeeply`, and `ValueError`."""
    try:
        if _MANY_DIGITS.search(text) is None:
            return orjson.loads(text)
        return json.loads(text, parse_constant=_finite, parse_float=_finite)
    except RecursionError as error:
        raise NestedTooDeeply("The JSON is nested too deeply.") from error
    except orjson.JSONDecodeError as error:
        if _LIMIT in error.msg:
            raise NestedTooDeeply("The JSON is nested too deeply.") from error
        raise


def value_of(text: bytes) -> Any:
    """Return the JSON value in `text`, with `limited` levels; `text` itself, as a string, when it is not JSON."""
    try:
        return read(text)[0]
    except ValueError:
        return text.decode(errors="replace")


def read(text: bytes) -> tuple[Any, bool]:
    """The JSON value in `text`, with `limited` levels, and whether it differs from the one in `text`. What no parser
    reads for its levels is given as text. Raises `ValueError` for what is not JSON.
    """
    try:
        value = loads(text)
        kept = limited(value) if text.count(b"[") + text.count(b"{") > DEEPEST else value
    except (NestedTooDeeply, RecursionError):
        return text.decode(errors="replace"), True
    return kept, kept is not value


def limited(value: Any) -> Any:
    """`value` itself; if it is nested too deeply, as JSON in a text, or of an object only the fields that are. Raises
    `RecursionError` for more than 900 levels.
    """
    if not is_too_deep(value):
        return value
    if isinstance(value, dict):
        fields = cast("dict[str, Any]", value).items()
        return {name: text_of(part).decode() if is_too_deep(part, DEEPEST - 1) else part for name, part in fields}
    return text_of(value).decode()


def text_of(value: object) -> bytes:
    """`value` as JSON in UTF-8, without spaces. Numbers of any size and texts with lone surrogates are kept. Raises
    `TypeError` for a value that is not JSON.
    """
    try:
        return orjson.dumps(value)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode()


def is_too_deep(value: object, levels: int = DEEPEST) -> bool:
    """True if a JSON value has more than `levels` levels of lists and objects.

    Workflow code calls it for answers of hundreds of thousands of values, where `isinstance`, which Temporal's sandbox
    wraps, takes longer than a workflow task may: so it asks once for each type, and not for each value. It keeps no
    more than one iterator per level, because long lists of containers make the garbage collector take longer still.
    """
    parts_of: dict[type[object], Callable[[Any], Iterable[Any]] | None] = {}
    open_levels: list[Iterator[Any]] = [iter((value,))]
    while open_levels:
        for part in open_levels[-1]:
            kind: type[object] = type(part)
            if kind not in parts_of:
                parts_of[kind] = dict.values if issubclass(kind, dict) else iter if issubclass(kind, list) else None
            parts = parts_of[kind]
            if parts is not None:
                if len(open_levels) > levels:
                    return True
                if part:
                    open_levels.append(iter(parts(part)))
                    break
        else:
            open_levels.pop()
    return False


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number that JSON parsers preserve.")
    return number


MAX_VALUES = 50_000
"""Values in one document that a workflow decodes: some 50 milliseconds, and 10 MB at most."""
MAX_BYTES = 1024 * 1024
"""Size of the arguments that a workflow decodes. Large inputs of Actors are not decoded, see `activities.inputs`."""


def has_more_values(document: object, limit: int = MAX_VALUES) -> bool:
    """Return True if a JSON document has more than `limit` values. Takes time in proportion to `limit` at most."""
    counted = 1
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            parts = cast(dict[str, object], value).values()
        elif isinstance(value, list | tuple):
            parts = cast("list[object] | tuple[object, ...]", value)
        else:
            continue
        counted += len(parts)
        if counted > limit:
            return True
        waiting.extend(parts)
    return False
