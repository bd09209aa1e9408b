"""Encrypts the secret parts of a call's arguments, so that no history holds them in plain text.

Input fields are secret if the Actor's input schema marks them `isSecret` (Apify input schema, version 1), or a direct
Actor tool marks them `writeOnly`. Without a known schema, the whole input is secret. Other tools name their secrets.
"""

from collections.abc import Callable

from pydantic import JsonValue

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.failures.exceptions import SealError
from outlast.activities.secrets import MASK, SecretSealer, is_mark, open_values, places_of_masks, seal_value, unmasked
from outlast.api.catalog.catalog import CalledActor
from outlast.api.errors import InvalidCall
from outlast.workflows.tools.framework.tool import Tool

Seal = Callable[[JsonValue], JsonValue]


def seal_arguments(
    tool: Tool, arguments: JsonObject, actor: CalledActor | None, sealer: SecretSealer, caller: Caller
) -> JsonObject:
    """`arguments` with the secret parts encrypted for `caller`."""
    return _apply(lambda value: seal_value(value, sealer, purpose=caller.id), tool, arguments, actor)


def seal_edited_arguments(
    tool: Tool, arguments: JsonObject, actor: CalledActor | None, sealer: SecretSealer, caller: Caller
) -> JsonObject:
    """Like `seal_arguments`, but masks and marks stay: they stand for values that were stored before."""

    def seal(value: JsonValue) -> JsonValue:
        return value if value == MASK or is_mark(value) else seal_value(value, sealer, purpose=caller.id)

    return _apply(seal, tool, arguments, actor)


def with_masked_values(
    edited: JsonObject, sealed: JsonValue, sealer: SecretSealer, caller: Caller, tool: str
) -> JsonObject:
    """`edited` with the secrets of `sealed` in place of its masks.

    Raises `InvalidCall` if one of them cannot be decrypted.
    """
    if not places_of_masks(edited):
        return edited
    try:
        opened = open_values(unmasked(edited, sealed), sealer, purpose=caller.id)
    except SealError as error:
        raise InvalidCall(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, tool, str(error))) from error
    assert isinstance(opened, dict), "an object is opened as one"
    return opened


def secret_fields(schema: JsonObject) -> frozenset[str]:
    """Names of the input fields whose values are secret."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return frozenset()
    return frozenset(
        name
        for name, field in properties.items()
        if isinstance(field, dict) and (field.get("isSecret") is True or field.get("writeOnly") is True)
    )


def _apply(seal: Seal, tool: Tool, arguments: JsonObject, actor: CalledActor | None) -> JsonObject:
    schema = actor.input_schema if actor else None
    if tool.actor is not None:
        return _seal_fields(seal, arguments, schema or {})
    if tool.sealed_fields:
        for place in tool.sealed_fields:
            arguments = {name: _seal_at(seal, name, value, place.split("/")) for name, value in arguments.items()}
        return arguments
    run_input = arguments.get("input")
    if not tool.calls_actor or not isinstance(run_input, dict):
        return arguments
    if schema is None:
        return {**arguments, "input": seal(run_input)}
    return {**arguments, "input": _seal_fields(seal, run_input, schema)}


def _seal_at(seal: Seal, name: str, value: JsonValue, place: list[str]) -> JsonValue:
    """`value`, whose name is `name`, with the part at `place` encrypted; `*` stands for every element of a list."""
    here, *below = place
    if here != name:
        return value
    if not below:
        return seal(value)
    if isinstance(value, list) and below[0] == "*":
        return [_seal_at(seal, "*", entry, below) for entry in value]
    if isinstance(value, dict):
        return {key: _seal_at(seal, key, entry, below) for key, entry in value.items()}
    return value


def _seal_fields(seal: Seal, run_input: JsonObject, schema: JsonObject) -> JsonObject:
    secret = secret_fields(schema)
    return {name: seal(value) if name in secret else value for name, value in run_input.items()}
