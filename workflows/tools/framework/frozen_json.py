"""JSON inside definitions that nobody can change: objects, and schemas that are made when they are first read."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Literal, cast

from pydantic import BaseModel, JsonValue


class FrozenObject(Mapping[str, JsonValue]):
    """A JSON object of any depth. Reading it gives copies; objects with the same content are equal, with equal hashes.

    Raises `TypeError` for a value that JSON does not have.
    """

    __slots__ = ("_text",)

    def __init__(self, value: Mapping[str, JsonValue] | Mapping[str, Mapping[str, JsonValue]]) -> None:
        """Take a copy of `value`."""
        self._text = json.dumps(_thawed(value), ensure_ascii=False)

    def __getitem__(self, key: str) -> JsonValue:
        """The value under `key`, as a fresh object."""
        return json.loads(self._text)[key]

    def __iter__(self) -> Iterator[str]:
        """The keys, in the order in which they were given."""
        return iter(json.loads(self._text))

    def __len__(self) -> int:
        """Number of keys."""
        return len(json.loads(self._text))

    def __hash__(self) -> int:
        """Does not depend on the order of keys, as equality does not."""
        return hash(json.dumps(json.loads(self._text), sort_keys=True))


def _thawed(value: object) -> object:
    """`value` with plain dicts and lists, which `json` can write."""
    if isinstance(value, Mapping):
        return {key: _thawed(part) for key, part in cast(Mapping[str, object], value).items()}
    if isinstance(value, list | tuple):
        return [_thawed(part) for part in cast(Sequence[object], value)]
    return value


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
