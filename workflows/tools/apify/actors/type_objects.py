"""What rows are like, as clients of Apify's server know it: `{"url": "string", "tags": ["string"]}`."""

from typing import cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject

_NUMBERS = frozenset({"integer", "number"})
_ANY = "unknown"


def type_object(schema: JsonObject) -> JsonObject:
    """The fields of the rows that fit a JSON Schema, with the names of their types; none for rows of anything."""
    found = _typed(schema)
    return found if isinstance(found, dict) else {}


def in_words(types: JsonValue) -> str:
    """A type object as TypeScript writes it: `{ url: string, tags: string[] }`."""
    if isinstance(types, dict):
        return f"{{ {', '.join(f'{name}: {in_words(each)}' for name, each in types.items())} }}"
    if isinstance(types, list):
        return f"{in_words(types[0] if types else _ANY)}[]"
    return str(types)


def _typed(schema: JsonValue) -> JsonValue:
    if not isinstance(schema, dict):
        return _ANY
    options = schema.get("anyOf")
    if isinstance(options, list):
        # An object or a list says more than the other types that a field may have.
        typed = [_typed(option) for option in options]
        nested = [each for each in typed if not isinstance(each, str)]
        return nested[0] if nested else _union([str(each) for each in typed])
    properties = schema.get("properties")
    if isinstance(properties, dict):
        return {name: _typed(each) for name, each in properties.items()}
    if schema.get("type") == "array":
        return [_typed(schema.get("items"))]
    kinds = schema.get("type")
    named = cast(list[JsonValue], kinds) if isinstance(kinds, list) else [kinds]
    return _union(["number" if kind in _NUMBERS else str(kind) for kind in named if kind is not None])


def _union(kinds: list[str]) -> str:
    return " | ".join(dict.fromkeys(kinds)) or _ANY
