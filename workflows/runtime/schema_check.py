"""Checking a value against a JSON Schema: answers of clients, results of tools, inputs of Actors. Pure."""

import json
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from pydantic import JsonValue
from referencing import Registry
from referencing.exceptions import Unresolvable

from outlast.activities.failures.contracts import Violation

_MAX_VIOLATIONS = 50
_KEPT_SCHEMAS = 256


def schema_violations(schema: dict[str, JsonValue], value: JsonValue) -> tuple[Violation, ...]:
    """The violations of `schema` (JSON Schema 2020-12, with Apify's `nullable`) in `value`; 50 at most.

    A schema that cannot be applied here (invalid, or with a `pattern` that only JavaScript understands) accepts every
    value: its owner checks the value again.
    """
    validator = _validator(json.dumps(schema))
    if validator is None:
        return ()
    try:
        errors = sorted(_errors(validator, value), key=lambda error: list(map(str, error.absolute_path)))
    except (Unresolvable, re.error):
        return ()
    return tuple(Violation.at(error.absolute_path, _bounded(error.message)) for error in errors[:_MAX_VIOLATIONS])


@lru_cache(maxsize=_KEPT_SCHEMAS)
def _validator(schema_json: str) -> Draft202012Validator | None:
    """A validator that fetches nothing: its registry is empty, so a `$ref` to another address fails."""
    plain = cast(dict[str, JsonValue], _without_nullable(json.loads(schema_json)))
    try:
        Draft202012Validator.check_schema(plain)
    except (SchemaError, re.error):
        return None
    return Draft202012Validator(plain, registry=Registry())


def _errors(validator: Draft202012Validator, value: JsonValue) -> Iterable[ValidationError]:
    return validator.iter_errors(value)  # pyright: ignore[reportUnknownMemberType]  # jsonschema leaves types open


def _without_nullable(schema: JsonValue) -> JsonValue:
    """Apify's `nullable: true` as JSON Schema has it: null is one more type."""
    if isinstance(schema, list):
        return [_without_nullable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _subschemas(key, part) for key, part in schema.items() if key != "nullable"}
    if schema.get("nullable") is True and isinstance(plain.get("type"), str):
        plain["type"] = [plain["type"], "null"]
        if isinstance(plain.get("enum"), list):
            plain["enum"] = [*cast(list[JsonValue], plain["enum"]), None]
    return plain


def _subschemas(keyword: str, value: JsonValue) -> JsonValue:
    """The keys of `properties` are names of fields, not keywords: a field may be called `nullable`."""
    if keyword == "properties" and isinstance(value, dict):
        return {name: _without_nullable(part) for name, part in value.items()}
    return _without_nullable(value)


def _bounded(message: str) -> str:
    return message if len(message) <= 300 else message[:299] + "…"
