"""The secret parts of a call's arguments, which are encrypted before a history holds them.

Input fields are secret if the Actor's input schema marks them `isSecret` (Apify input schema, version 1), or a direct
Actor tool marks them `writeOnly`. Without a known schema, the whole input is secret. Other tools name their secrets.
"""

from collections.abc import Callable

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.framework.tool import Tool

Seal = Callable[[JsonValue], JsonValue]


def with_sealed_parts(seal: Seal, tool: Tool, arguments: JsonObject, input_schema: JsonObject | None) -> JsonObject:
    """`arguments` with the secret parts encrypted by `seal`. `input_schema` is that of the called Actor, if known."""
    if tool.actor is not None:
        return _seal_fields(seal, arguments, input_schema or {})
    if tool.sealed_fields:
        for place in tool.sealed_fields:
            arguments = {name: _seal_at(seal, name, value, place.split("/")) for name, value in arguments.items()}
        return arguments
    run_input = arguments.get("input")
    if not tool.calls_actor or not isinstance(run_input, dict):
        return arguments
    if input_schema is None:
        return {**arguments, "input": seal(run_input)}
    return {**arguments, "input": _seal_fields(seal, run_input, input_schema)}


def arguments_with_secrets(tool: Tool) -> frozenset[str]:
    """Names of the arguments that may have secret parts, for a tool that is not the direct tool of an Actor."""
    if tool.sealed_fields:
        return frozenset(place.partition("/")[0] for place in tool.sealed_fields)
    return frozenset({"input"}) if tool.calls_actor else frozenset()


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
