"""The JSON Schema of a tool's arguments or answer, made when it is first read: a process reads few of them."""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Literal

from pydantic import BaseModel, JsonValue

Schema = Mapping[str, JsonValue]


class SchemaText:
    """A schema as JSON. Never changes."""

    def __init__(self, make: Callable[[], Schema]) -> None:
        """Have `make` called when the schema is first read; by two threads at once perhaps twice."""
        self._make = make

    @classmethod
    def of(cls, schema: Schema) -> "SchemaText":
        """The text of a schema that there is already. Raises `TypeError` for what is no JSON."""
        made = cls(lambda: schema)
        _ = made.json
        return made

    @classmethod
    def of_model(cls, model: type[BaseModel], mode: Literal["validation", "serialization"]) -> "SchemaText":
        """The text of a model's schema, by its aliases. Reading it raises pydantic's error when the model has none."""
        return cls(lambda: model.model_json_schema(by_alias=True, mode=mode))

    @cached_property
    def json(self) -> str:
        """The text, the same at each reading."""
        return json.dumps(self._make(), ensure_ascii=False)

    def or_compressed(self) -> "SchemaText":
        """The schema that also accepts the short form of a stored output."""
        return SchemaText(lambda: _or_compressed(json.loads(self.json)))


def _or_compressed(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
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
