"""Arguments in mode `apify`: coerced types, unknown names, and the first schema violation in the words of Ajv."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.json_numbers import MAX_INTEGER, MIN_INTEGER
from outlast.activities.json_schema.coercion import looks_like_json
from outlast.activities.json_schema.violations import MAX_QUICK_WORK, NotCountable, nodes_and_patterns

_COMPARED = {"minimum": ">=", "maximum": "<=", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}
_COUNTED = {
    "minLength": ("fewer", "characters"),
    "maxLength": ("more", "characters"),
    "minItems": ("fewer", "items"),
    "maxItems": ("more", "items"),
    "minProperties": ("fewer", "properties"),
    "maxProperties": ("more", "properties"),
}
_NOT_CHECKED = frozenset({"pattern", "format"})
_COSTLY = frozenset({"pattern", "$ref", "$dynamicRef"})
_NUMBER = re.compile(r"[-+]?(?:\d{1,300}\.?\d{0,300}|\.\d{1,300})(?:[eE][-+]?\d{1,2})?", re.ASCII)
_WHOLE = re.compile(r"[-+]?\d{1,300}", re.ASCII)
_OF_BASE = re.compile(r"0(?:[xX][0-9a-fA-F]{1,200}|[oO][0-7]{1,300}|[bB][01]{1,900})", re.ASCII)
"""Hexadecimal, octal and binary numbers as JavaScript writes them."""
_WORDS = {"true": True, "false": False}


def coerced_object(schema: JsonObject, value: JsonObject) -> JsonObject:
    """Convert `value` to the types of `schema` as Ajv does, and drop unknown fields of closed objects.

    Scalars become other scalars, a list of one value that value, and a scalar a list of it. Values that cannot be
    converted stay, so that the check reports them.
    """
    properties = schema.get("properties")
    known = properties if isinstance(properties, dict) else {}
    closed = schema.get("additionalProperties") is False
    return {name: _as_known(known.get(name), entry) for name, entry in value.items() if name in known or not closed}


def first_violation(schema: JsonObject, arguments: Mapping[str, Any]) -> str | None:
    """Return `<path or root>: <reason>` of the violation that is first in the schema; None if valid.

    The time is unbounded: use it for this program's schemas only.
    """
    checker = cast(_Checker, Draft202012Validator(schema))
    errors = [error for error in checker.iter_errors(arguments) if error.validator not in _NOT_CHECKED]
    if not errors:
        return None
    first = min(errors, key=lambda error: _place_in(schema, error))
    return f"{_path(first)}: {_reason(first)}"


def quick_first_violation(schema: JsonObject, arguments: Mapping[str, Any]) -> str | None:
    """As `first_violation`, for a schema of the outside world; None also where finding it might take long."""
    plain = _without_patterns(schema)
    try:
        nodes, _ = nodes_and_patterns(plain)
        size = len(json.dumps(arguments))
    except (NotCountable, RecursionError):
        return None
    return first_violation(plain, arguments) if nodes * size <= MAX_QUICK_WORK else None


class _Checker(Protocol):
    """Types for jsonschema, whose own are incomplete."""

    def iter_errors(self, instance: object) -> Iterator[ValidationError]: ...


def _without_patterns(schema: Any) -> Any:
    """The schema without what costs more than its size: regular expressions, and references that may go in circles."""
    if isinstance(schema, list):
        return [_without_patterns(entry) for entry in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    given = cast(dict[str, Any], schema)
    # A property can have such a name; its value is a schema then, not a text.
    kept = {name: entry for name, entry in given.items() if name not in _COSTLY or not isinstance(entry, str)}
    return {name: _without_patterns(entry) for name, entry in kept.items() if name != "patternProperties"}


def _place_in(schema: JsonObject, error: ValidationError) -> tuple[int, ...]:
    """Return the order in which Ajv reports: missing properties before present ones, in the schema's order."""
    place: list[int] = []
    at: Any = schema
    for part in error.absolute_path:
        properties = cast(dict[str, Any], at.get("properties", {})) if isinstance(at, dict) else {}
        if isinstance(part, int):
            place.append(part)
            at = cast(dict[str, Any], at).get("items", {}) if isinstance(at, dict) else {}
        else:
            place.append(list(properties).index(part) + 1 if part in properties else len(properties) + 1)
            at = properties.get(part, {})
    return (*place, 0)


def _path(error: ValidationError) -> str:
    parts = [str(part).replace("~", "~0").replace("/", "~1") for part in error.absolute_path]
    return "".join(f"/{part}" for part in parts) or "root"


def _reason(error: ValidationError) -> str:
    rule, limit = str(error.validator), cast(Any, error.validator_value)
    if rule == "required":
        missing = next((name for name in limit if name not in cast(Any, error.instance)), "")
        return f"must have required property '{missing}'"
    if rule == "type":
        kinds = cast(list[str], limit) if isinstance(limit, list) else [str(limit)]
        return f"must be {','.join(kinds)}"
    if rule in _COMPARED:
        return f"must be {_COMPARED[rule]} {json.dumps(limit)}"
    if rule in _COUNTED:
        word, what = _COUNTED[rule]
        return f"must NOT have {word} than {limit} {what}"
    if rule == "enum":
        return "must be equal to one of the allowed values"
    return error.message


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
    # A text with a broken list must not become a list of that text.
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
    """Return a scalar as `kind`, as Ajv coerces it; None when it cannot be."""
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
    """Parse a number as JavaScript does; blanks are 0. None for a number that would lose precision."""
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
