"""Checking arguments against a tool's schema before anything is started."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from typing import cast

from pydantic import JsonValue

from outlast.activities.failures.contracts import Violation
from outlast.activities.secrets.sealed_json import MASK, places_of_masks
from outlast.api.errors import InvalidCall
from outlast.workflows.runtime.schema_check import schema_violations
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.framework.tool import Tool, invalid_arguments

JsonObject = dict[str, JsonValue]


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


@contextmanager
def masks_allowed(arguments: Mapping[str, JsonValue]) -> Generator[None]:
    """Let values that were masked for whoever wrote `arguments` break the schema: what they stand for fits it."""
    try:
        yield
    except InvalidCall as error:
        kept = tuple(v for v in error.envelope.violations or () if _value_at(arguments, v.path) != MASK)
        if kept:
            raise InvalidCall(invalid_arguments(error.envelope.tool, kept)) from None


def refuse_masks_inside(definition: Tool, arguments: Mapping[str, JsonValue]) -> None:
    """Raise `InvalidCall` for masks inside an input whose schema is not known: only the whole of it was masked."""
    run_input = arguments.get("input")
    if not definition.calls_actor or run_input == MASK:
        return
    places = sorted(places_of_masks(run_input, ("input",)), key=str)
    if places:
        message = "The Actor's input schema is not known: write the value itself."
        raise InvalidCall(invalid_arguments(definition.name, tuple(Violation.at(place, message) for place in places)))


def _value_at(document: JsonValue | Mapping[str, JsonValue], pointer: str) -> JsonValue:
    """The value that a JSON Pointer (RFC 6901) leads to; None when it leads nowhere."""
    value: object = document
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, Mapping):
            value = cast(Mapping[str, JsonValue], value).get(name)
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(cast(list[JsonValue], value)):
            value = cast(list[JsonValue], value)[int(name)]
        else:
            return None
    return cast(JsonValue, value)
