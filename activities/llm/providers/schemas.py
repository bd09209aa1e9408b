"""JSON Schemas of structured output. Pure."""

from collections.abc import Iterator
from typing import cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject


def is_strict(schema: JsonObject) -> bool:
    """Whether every object in `schema` requires all its properties and no others: OpenAI's rule for strict schemas."""
    return all(_is_closed(one) for one in _objects(schema))


def loose_schema_warnings(provider_id: str, schema: JsonObject | None) -> tuple[str, ...]:
    """A warning when the provider does not enforce `schema`."""
    if schema is None or is_strict(schema):
        return ()
    warning = (
        f"{provider_id} follows this output schema as well as it can: to enforce it, set `additionalProperties: false` "
        "and list every property as required, in every object."
    )
    return (warning,)


def _objects(value: JsonValue) -> Iterator[JsonObject]:
    if isinstance(value, list):
        for entry in value:
            yield from _objects(entry)
    elif isinstance(value, dict):
        if value.get("type") == "object" or "properties" in value:
            yield value
        for entry in value.values():
            yield from _objects(entry)


def _is_closed(schema: JsonObject) -> bool:
    properties = schema.get("properties")
    names = set(properties) if isinstance(properties, dict) else set[str]()
    required = schema.get("required")
    listed = set(cast(list[str], required)) if isinstance(required, list) else set[str]()
    return schema.get("additionalProperties") is False and names == listed
