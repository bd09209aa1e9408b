"""`FrozenObject`: a JSON object inside a definition, which nobody can change."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from pydantic import JsonValue


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
        """How many keys there are."""
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
