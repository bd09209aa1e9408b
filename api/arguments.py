"""Checking arguments against a tool's schema before anything is started."""

from collections.abc import Mapping

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError
from pydantic import JsonValue

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
    """How `value` breaks an Actor's input schema; an invalid schema is the Actor's fault and lets everything pass."""
    validator = Draft202012Validator(_without_nullable(schema))
    errors: list[ValidationError] = sorted(
        validator.iter_errors(value), key=lambda error: list(map(str, error.absolute_path))
    )
    return tuple(
        Violation(path="".join(f"/{part}" for part in error.absolute_path), message=_bounded(error.message))
        for error in errors[:_MAX_VIOLATIONS]
    )


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
