"""Checking arguments against a tool's schema before anything is started."""

import re
from collections.abc import Iterable, Mapping
from typing import cast

from jsonschema import Draft202012Validator
from jsonschema.exceptions import SchemaError, ValidationError
from pydantic import JsonValue
from referencing import Registry
from referencing.exceptions import Unresolvable

from activities.models import Violation
from api.errors import InvalidCall
from workflows.failures import ToolError
from workflows.tools.tool import Tool, invalid_arguments

JsonObject = dict[str, JsonValue]

_MAX_VIOLATIONS = 50


def check_arguments(definition: Tool, arguments: Mapping[str, JsonValue]) -> None:
    """Raise `InvalidCall` with every violation, unless the arguments fit."""
    if definition.arguments is not None:
        try:
            definition.parse(arguments)
        except ToolError as error:
            raise InvalidCall(error.envelope) from error
        return
    found = schema_violations(definition.input_schema, dict(arguments))
    if found:
        raise InvalidCall(invalid_arguments(definition.name, found))


def check_actor_input(definition: Tool, arguments: Mapping[str, JsonValue], schema: JsonObject | None) -> None:
    """Raise `InvalidCall` when the input of `call-actor` breaks the Actor's own input schema.

    Nothing is said while the schema is not known: the platform checks the input too.
    """
    run_input = arguments.get("input", {})
    if definition.actor is not None or schema is None or not isinstance(run_input, dict):
        return
    found = schema_violations({"type": "object", **schema}, run_input)
    if found:
        violations = tuple(Violation(path=f"/input{entry.path}", message=entry.message) for entry in found)
        raise InvalidCall(invalid_arguments(definition.name, violations))


def schema_violations(schema: dict[str, JsonValue], value: JsonValue) -> tuple[Violation, ...]:
    """How `value` breaks an Actor's input schema.

    A schema that cannot be applied here (broken, or with a `pattern` that only JavaScript knows) lets everything pass:
    the platform has the last word. An empty registry keeps a `$ref` from being fetched from wherever it points to.
    """
    plain = cast(dict[str, JsonValue], _without_nullable(schema))
    validator = Draft202012Validator(plain, registry=Registry())
    try:
        validator.check_schema(plain)
        errors = sorted(_errors(validator, value), key=lambda error: list(map(str, error.absolute_path)))
    except (SchemaError, Unresolvable, re.error):
        return ()
    return tuple(Violation.at(error.absolute_path, _bounded(error.message)) for error in errors[:_MAX_VIOLATIONS])


def _errors(validator: Draft202012Validator, value: JsonValue) -> Iterable[ValidationError]:
    return validator.iter_errors(value)  # pyright: ignore[reportUnknownMemberType]  # jsonschema leaves types open


def _without_nullable(schema: JsonValue) -> JsonValue:
    """Apify's `nullable: true` in the words of JSON Schema: null is a further type."""
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
    """The keys of `properties` are names, not keywords: a field may well be called `nullable`."""
    if keyword == "properties" and isinstance(value, dict):
        return {name: _without_nullable(part) for name, part in value.items()}
    return _without_nullable(value)


def _bounded(message: str) -> str:
    return message if len(message) <= 300 else message[:299] + "…"
