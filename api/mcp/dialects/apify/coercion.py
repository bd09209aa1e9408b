"""Arguments as clients of Apify's server may send them: numbers as texts, and names that no tool knows."""

import math
import re

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.json_numbers import MAX_INTEGER, MIN_INTEGER
from outlast.activities.json_schema.coercion import looks_like_json

_NUMBER = re.compile(r"[-+]?(?:\d{1,300}\.?\d{0,300}|\.\d{1,300})(?:[eE][-+]?\d{1,2})?", re.ASCII)
_WHOLE = re.compile(r"[-+]?\d{1,300}", re.ASCII)
_OF_BASE = re.compile(r"0(?:[xX][0-9a-fA-F]{1,200}|[oO][0-7]{1,300}|[bB][01]{1,900})", re.ASCII)
"""Hexadecimal, octal and binary numbers as JavaScript writes them."""
_WORDS = {"true": True, "false": False}


def coerced_object(schema: JsonObject, value: JsonObject) -> JsonObject:
    """`value` in the types that `schema` asks for, and without what its closed objects do not know.

    As Ajv coerces: scalars to other scalars, a list of one value to that value, and a scalar to a list of it.

    What cannot be coerced stays, for the check to name it.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    closed = schema.get("additionalProperties") is False
    return {name: _as_known(known.get(name), entry) for name, entry in value.items() if name in known or not closed}


def _as_known(schema: JsonValue, value: JsonValue) -> JsonValue:
    if not isinstance(schema, dict):
        return value
    kinds = _types(schema)
    if isinstance(value, list) and len(value) == 1 and kinds and "array" not in kinds:
        value = value[0]
    if isinstance(value, dict):
        return coerced_object(schema, value)
    if isinstance(value, list):
        return [_as_known(schema.get("items"), entry) for entry in value]
    if not kinds or _fits(value, kinds) or (isinstance(value, bool) and "exclusiveMinimum" in schema):
        return value  # a limit on cost or rows is not made of a truth value
    # Of a broken list in a text, a list of that text would be made, which nobody has meant.
    if kinds == ["array"] and not (isinstance(value, str) and looks_like_json(value)):
        return [_as_known(schema.get("items"), value)]
    changed = (_as(kind, value) for kind in kinds)
    return next((each for each in changed if each is not None), value)


def _types(schema: JsonObject) -> list[str]:
    kind = schema.get("type")
    return [kind] if isinstance(kind, str) else [str(each) for each in kind] if isinstance(kind, list) else []


def _fits(value: JsonValue, kinds: list[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in kinds
    if isinstance(value, int | float):
        return "number" in kinds or ("integer" in kinds and float(value).is_integer())
    return ("string" if isinstance(value, str) else "null") in kinds


def _as(kind: str, value: JsonValue) -> JsonValue:
    """A scalar as `kind`, as Ajv coerces it; None when it cannot be."""
    if kind in ("number", "integer"):
        return _as_number(kind, value)
    if kind == "boolean":
        return _as_boolean(value)
    if kind != "string":
        return None
    if value is None or isinstance(value, bool):
        return "" if value is None else str(value).lower()
    return f"{value:g}" if isinstance(value, float) else str(value)


def _as_number(kind: str, value: JsonValue) -> int | float | None:
    if value is None or isinstance(value, bool):
        return int(bool(value))
    if not isinstance(value, str) or not value:
        return None
    number = _number_in(value.strip())
    if number is None:
        return None
    if number == int(number) and MIN_INTEGER <= number <= MAX_INTEGER:
        return int(number)
    return number if kind == "number" and isinstance(number, float) else None


def _number_in(text: str) -> int | float | None:
    """What JavaScript reads a text as; blanks are 0. None for a number that would not be kept exactly."""
    if _OF_BASE.fullmatch(text):
        return int(text, 0)
    if not text or _WHOLE.fullmatch(text):
        return int(text or 0)
    if not _NUMBER.fullmatch(text):
        return None
    number = float(text)
    is_lost = not number and any(digit in text.lower().partition("e")[0] for digit in "123456789")
    return number if math.isfinite(number) and not is_lost else None


def _as_boolean(value: JsonValue) -> bool | None:
    if isinstance(value, str):
        return _WORDS.get(value)
    return bool(value) if value in (0, 1) or value is None else None
