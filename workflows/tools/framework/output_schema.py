"""Output schemas of tools whose large answers are stored."""

from pydantic import JsonValue


def or_compressed(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """An output schema that also accepts the short form of a stored output."""
    own = dict(schema)
    definitions = own.pop("$defs", None)
    short: dict[str, JsonValue] = {
        "type": "object",
        "description": "Instead of a large answer: where it is stored, and what is in it.",
        "properties": {
            "compressed": {"const": True},
            "locator": {"type": "string"},
            "summary": {"type": "string"},
        },
        "required": ["compressed", "locator", "summary"],
    }
    either: dict[str, JsonValue] = {"type": "object", "anyOf": [own, short]}
    return {**either, "$defs": definitions} if definitions else either
