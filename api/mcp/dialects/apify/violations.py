"""The first violation of a tool's schema, in the words that clients of Apify's server know: those of Ajv."""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Protocol, cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from outlast.activities.contracts import JsonObject
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


class _Checker(Protocol):
    """What is used of jsonschema, whose own types are not complete."""

    def iter_errors(self, instance: object) -> Iterator[ValidationError]: ...


def quick_first_violation(schema: JsonObject, arguments: Mapping[str, Any]) -> str | None:
    """As `first_violation`, for a schema of the outside world; None also where finding it might take long."""
    plain = _without_patterns(schema)
    try:
        nodes, _ = nodes_and_patterns(plain)
        size = len(json.dumps(arguments))
    except (NotCountable, RecursionError):
        return None
    return first_violation(plain, arguments) if nodes * size <= MAX_QUICK_WORK else None


def _without_patterns(schema: Any) -> Any:
    """The schema without what costs more than its size: regular expressions, and references that may go in circles."""
    if isinstance(schema, list):
        return [_without_patterns(entry) for entry in cast(list[Any], schema)]
    if not isinstance(schema, dict):
        return schema
    given = cast(dict[str, Any], schema)
    # A property may have such a name: then its value is a schema, and no text.
    kept = {name: entry for name, entry in given.items() if name not in _COSTLY or not isinstance(entry, str)}
    return {name: _without_patterns(entry) for name, entry in kept.items() if name != "patternProperties"}


def first_violation(schema: JsonObject, arguments: Mapping[str, Any]) -> str | None:
    """`<path or root>: <reason>` of the violation that comes first in the schema; None when there is none.

    For schemas of this program only: it takes as long as it takes.
    """
    checker = cast(_Checker, Draft202012Validator(schema))
    errors = [error for error in checker.iter_errors(arguments) if error.validator not in _NOT_CHECKED]
    if not errors:
        return None
    first = min(errors, key=lambda error: _place_in(schema, error))
    return f"{_path(first)}: {_reason(first)}"


def _place_in(schema: JsonObject, error: ValidationError) -> tuple[int, ...]:
    """When Ajv would report it: missing properties before present ones, in the schema's order."""
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
