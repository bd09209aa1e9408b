"""Words for JSON Schema, in the form that clients of Apify's server know: closed objects, and its limits."""

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest whole number that every JSON parser keeps exact: the limit of integers that have no other."""


def text(description: str = "", **more: JsonValue) -> JsonObject:
    """A string."""
    return _described({"type": "string", **more}, description)


def required_text(description: str = "", **more: JsonValue) -> JsonObject:
    """A string that is not empty."""
    return text(description, minLength=1, **more)


def number(description: str = "", **more: JsonValue) -> JsonObject:
    """A number."""
    return _described({"type": "number", **more}, description)


def integer(description: str = "", **more: JsonValue) -> JsonObject:
    """A whole number; with `minimum` or `exclusiveMinimum`, and no `maximum`, the largest exact one is the limit."""
    if ("minimum" in more or "exclusiveMinimum" in more) and "maximum" not in more:
        more = {**more, "maximum": MAX_SAFE_INTEGER}
    return _described({"type": "integer", **more}, description)


def flag(description: str = "", **more: JsonValue) -> JsonObject:
    """True or false."""
    return _described({"type": "boolean", **more}, description)


def array(items: JsonObject, description: str = "", **more: JsonValue) -> JsonObject:
    """A list."""
    return _described({"type": "array", "items": items, **more}, description)


def nullable(kind: str, description: str = "") -> JsonObject:
    """A value of a type, or null."""
    return _described({"type": [kind, "null"]}, description)


def anything(description: str = "") -> JsonObject:
    """Any value."""
    return _described({}, description)


def free_object(description: str = "") -> JsonObject:
    """An object that this program knows nothing of."""
    return _described({"type": "object", "properties": {}, "additionalProperties": {}}, description)


def inner(properties: JsonObject, description: str = "", **more: JsonValue) -> JsonObject:
    """A closed object within arguments, with optional fields only."""
    return _described({"type": "object", "properties": properties, "additionalProperties": False, **more}, description)


def arguments(properties: JsonObject, *, required: tuple[str, ...] = ()) -> JsonObject:
    """The arguments of a tool: a closed object."""
    return {"type": "object", "properties": properties, "required": [*required], "additionalProperties": False}


def answer(properties: JsonObject, *, required: tuple[str, ...] = (), **more: JsonValue) -> JsonObject:
    """A structured answer, or a part of one; it may have further fields."""
    schema: JsonObject = {"type": "object", "properties": properties, **more}
    return {**schema, "required": [*required]} if required else schema


def _described(schema: JsonObject, description: str) -> JsonObject:
    return {**schema, "description": description} if description else schema
