"""Immutable JSON inside definitions: objects, and schemas that are made when they are first read."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, cast

from pydantic import BaseModel, JsonValue


class FrozenObject(Mapping[str, JsonValue]):
    """A JSON object of any depth. Reading it returns copies; objects with the same content are equal.

    Raises `TypeError` for a value that JSON does not have.
    """

    __slots__ = ("_text",)

    def __init__(self, value: Mapping[str, JsonValue] | Mapping[str, Mapping[str, JsonValue]]) -> None:
        self._text = json.dumps(_thawed(value), ensure_ascii=False)

    def __getitem__(self, key: str) -> JsonValue:
        return json.loads(self._text)[key]

    def __iter__(self) -> Iterator[str]:
        return iter(json.loads(self._text))

    def __len__(self) -> int:
        return len(json.loads(self._text))

    def __hash__(self) -> int:
        # As equality, independent of the order of keys.
        return hash(json.dumps(json.loads(self._text), sort_keys=True))


def _thawed(value: object) -> object:
    """Return `value` with plain dicts and lists, which `json` can write."""
    if isinstance(value, Mapping):
        return {key: _thawed(part) for key, part in cast(Mapping[str, object], value).items()}
    if isinstance(value, list | tuple):
        return [_thawed(part) for part in cast(Sequence[object], value)]
    return value


Schema = Mapping[str, JsonValue]


class SchemaText:
    """An immutable schema as JSON. `make` is called when it is first read, perhaps by two threads."""

    def __init__(self, make: Callable[[], Schema]) -> None:
        self._make = make

    @classmethod
    def of(cls, schema: Schema) -> "SchemaText":
        """Return the text of an existing schema. Raises `TypeError` for a value that JSON does not have."""
        made = cls(lambda: schema)
        _ = made.json
        return made

    @classmethod
    def of_model(cls, model: type[BaseModel], mode: Literal["validation", "serialization"]) -> "SchemaText":
        """Return the text of a model's schema, by its aliases. Reading it raises pydantic's error if it has none."""
        return cls(lambda: model.model_json_schema(by_alias=True, mode=mode))

    @cached_property
    def json(self) -> str:
        """The text, the same at each reading."""
        return json.dumps(self._make(), ensure_ascii=False)

    def or_compressed(self) -> "SchemaText":
        """Return the schema that also accepts the short form of a stored output."""
        return SchemaText(lambda: _or_compressed(json.loads(self.json)))


def _or_compressed(own: dict[str, JsonValue]) -> dict[str, JsonValue]:
    # References point to the root.
    shared = {keyword: own.pop(keyword) for keyword in ("$schema", "$defs", "definitions") if keyword in own}
    short: dict[str, JsonValue] = {
        "type": "object",
        "description": "Instead of a large answer: where it is stored, and what is in it.",
        "properties": {"compressed": {"const": True}, "locator": {"type": "string"}, "summary": {"type": "string"}},
        "required": ["compressed", "locator", "summary"],
    }
    return {"type": "object", "anyOf": [own, short], **shared}
