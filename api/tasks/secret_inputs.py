"""Which parts of an Actor's input are secret: those that its input schema marks `isSecret` (Apify input schema, v1).

A direct Actor tool says the same in the words of JSON Schema, `writeOnly`.
"""

from collections.abc import Callable

from pydantic import JsonValue

JsonObject = dict[str, JsonValue]


def map_secret_fields(
    run_input: JsonObject, schema: JsonObject, change: Callable[[JsonValue], JsonValue]
) -> JsonObject:
    """`run_input` with `change` applied to the values of its secret fields."""
    secret = secret_fields(schema)
    return {name: change(value) if name in secret else value for name, value in run_input.items()}


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
