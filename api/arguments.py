"""Checking arguments against a tool's schema before anything is started."""

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


def schema_violations(schema: dict[str, JsonValue], value: JsonValue) -> tuple[Violation, ...]:
    """How `value` breaks an Actor's input schema.

    A schema that is itself broken is the Actor's fault and lets everything pass: the platform has the last word. An
    empty registry keeps a `$ref` from being fetched from wherever it points to.
    """
    plain = cast(dict[str, JsonValue], _without_nullable(schema))
    validator = Draft202012Validator(plain, registry=Registry())
    try:
        validator.check_schema(plain)
        errors = sorted(_errors(validator, value), key=lambda error: list(map(str, error.absolute_path)))
    except (SchemaError, Unresolvable):
        return ()
    return tuple(
        Violation(path="".join(f"/{part}" for part in error.absolute_path), message=_bounded(error.message))
        for error in errors[:_MAX_VIOLATIONS]
    )


def _errors(validator: Draft202012Validator, value: JsonValue) -> Iterable[ValidationError]:
    return validator.iter_errors(value)  # pyright: ignore[reportUnknownMemberType]  # jsonschema leaves types open


def _without_nullable(schema: JsonValue) -> JsonValue:
    """Apify's `nullable: true` in the words of JSON Schema: null is a further type."""
    if isinstance(schema, list):
        return [_without_nullable(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    plain = {key: _without_nullable(part) for key, part in schema.items() if key != "nullable"}
    if schema.get("nullable") is True and isinstance(plain.get("type"), str):
        plain["type"] = [plain["type"], "null"]
    return plain


def _bounded(message: str) -> str:
    return message if len(message) <= 300 else message[:299] + "…"
