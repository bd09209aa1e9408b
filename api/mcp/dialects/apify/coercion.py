"""Arguments as clients of Apify's server may send them: numbers as texts, and names that no tool knows."""

import re

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject

_NUMBER = re.compile(r"[-+]?(?:\d{1,300}\.?\d{0,300}|\.\d{1,300})(?:[eE][-+]?\d{1,2})?", re.ASCII)
_WORDS = {"true": True, "false": False}


def coerced_object(schema: JsonObject, value: JsonObject) -> JsonObject:
    """`value` with scalars in the types that `schema` asks for, and without what its closed objects do not know.

    What cannot be coerced stays, for the check to name it.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    closed = schema.get("additionalProperties") is False
    return {name: _as_known(known.get(name), entry) for name, entry in value.items() if name in known or not closed}


def _as_known(schema: JsonValue, value: JsonValue) -> JsonValue:
    if not isinstance(schema, dict):
        return value
    if isinstance(value, dict):
        return coerced_object(schema, value)
    if isinstance(value, list):
        return [_as_known(schema.get("items"), entry) for entry in value]
    kinds = _types(schema)
    if not kinds or _fits(value, kinds):
        return value
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
    if not isinstance(value, str) or _NUMBER.fullmatch(value.strip()) is None:
        return None
    number = float(value)
    if number.is_integer():
        return int(number)
    return number if kind == "number" else None


def _as_boolean(value: JsonValue) -> bool | None:
    if isinstance(value, str):
        return _WORDS.get(value)
    return bool(value) if value in (0, 1) or value is None else None
