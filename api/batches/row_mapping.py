"""From rows to items: which arguments an item has, and which key. Pure."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.batches.contracts import MAX_KEY_CHARS
from outlast.activities.contracts import JsonObject
from outlast.activities.json_numbers import number_flaws

_LONGEST_LIST = 100
_ITEM_FIELDS = frozenset({"key", "arguments"})
_MISSING = object()
_INTEGER = re.compile(r"-?\d{1,40}", re.ASCII)
_NUMBER = re.compile(r"-?\d{1,40}(\.\d{1,40})?([eE][+-]?\d{1,3})?", re.ASCII)


class RowRefused(ValueError):
    """A row from which no item can be made. The message is a sentence."""


@dataclass(frozen=True)
class Mapped:
    """An item before it is admitted. `key` is None when nothing names it."""

    key: str | None
    arguments: JsonObject


@dataclass(frozen=True)
class RowMapping:
    """Makes an item of a row."""

    common: JsonObject
    fields: Mapping[str, str]
    key: str | None

    def item(self, row: JsonValue) -> Mapped:
        """The item of `row`. Raises `RowRefused`."""
        if not isinstance(row, dict):
            raise RowRefused("It is no JSON object.")
        key = self._key_of(row)
        if self.fields:
            return Mapped(key, merged(self.common, self._mapped(row)))
        own = row.get("arguments")
        if isinstance(own, dict) and is_item(row):
            return Mapped(key if key is not None else _as_key(row.get("key"), "key"), merged(self.common, own))
        return Mapped(key, merged(self.common, row))

    def _key_of(self, row: JsonObject) -> str | None:
        if self.key is None:
            return None
        found = _value_at(row, self.key)
        if found is _MISSING or found is None or found == "":
            raise RowRefused(f"It has no `{self.key}`, which is to be the item's key.")
        return _as_key(cast(JsonValue, found), self.key)

    def _mapped(self, row: JsonObject) -> JsonObject:
        arguments: JsonObject = {}
        for target, source in self.fields.items():
            value = _value_at(row, source)
            if value is _MISSING:
                raise RowRefused(f"It has no `{source}`, from which `{target}` takes its value.")
            _place(arguments, target.split("."), cast(JsonValue, value))
        return arguments


def is_item(row: JsonValue) -> bool:
    """Whether a row is an item with arguments, and not the arguments themselves. Only without a mapping."""
    return isinstance(row, dict) and isinstance(row.get("arguments"), dict) and row.keys() <= _ITEM_FIELDS


def merged(common: JsonObject, own: JsonObject) -> JsonObject:
    """`own` over `common`, objects field by field."""
    both = dict(common)
    for name, value in own.items():
        before = both.get(name)
        both[name] = merged(before, value) if isinstance(before, dict) and isinstance(value, dict) else value
    return both


def typed(arguments: JsonObject, schema: JsonObject) -> JsonObject:
    """Arguments from CSV, whose values are texts: as numbers and truth values where the schema has those.

    A text that reads as neither stays: the schema's check says what is wrong with it. An empty cell is an absent value.
    """
    given = schema.get("properties")
    properties = given if isinstance(given, dict) else {}
    return {name: _typed(value, properties.get(name)) for name, value in arguments.items() if value is not None}


def _typed(value: JsonValue, schema: JsonValue) -> JsonValue:
    known = schema if isinstance(schema, dict) else {}
    if isinstance(value, dict):
        return typed(value, known)
    if isinstance(value, list):
        return [_typed(entry, known.get("items")) for entry in value if entry is not None]
    return _as_type(value, _types_of(known)) if isinstance(value, str) else value


def _as_type(text: str, types: Sequence[str]) -> JsonValue:
    if "string" in types or not types:
        return text
    word = text.strip()
    if number_flaws(word.encode()):
        return text  # which the schema's check refuses
    if "integer" in types and _INTEGER.fullmatch(word):
        return int(word)
    if "number" in types and _NUMBER.fullmatch(word):
        return float(word)
    truth = {"true": True, "false": False}.get(word.lower())
    return truth if "boolean" in types and truth is not None else text


def _types_of(schema: JsonObject) -> list[str]:
    """The types that a value may have, those of the alternatives of an optional value, too."""
    kind = schema.get("type")
    kinds = kind if isinstance(kind, list) else [kind]
    found = [one for one in kinds if isinstance(one, str)]
    for name in ("anyOf", "oneOf"):
        alternatives = schema.get(name)
        for one in alternatives if isinstance(alternatives, list) else []:
            found += _types_of(one) if isinstance(one, dict) else []
    return found


def unknown_columns(names: Iterable[str], key: str | None, mapping: Mapping[str, str], schema: JsonObject) -> list[str]:
    """Columns of CSV, or targets of a mapping, that are no arguments by the schema. None if it leaves names open."""
    if mapping:
        return [target for target in mapping if not _has(schema, target.split("."))]
    return [name for name in names if name != key and not _has(schema, [name])]


def _has(schema: JsonValue, path: Sequence[str]) -> bool:
    """Whether values at `path` are part of the schema, or cannot be told."""
    if not isinstance(schema, dict) or not path:
        return True
    properties = schema.get("properties")
    if not isinstance(properties, dict) or schema.get("patternProperties") or schema.get("additionalProperties"):
        return True
    return path[0] in properties and _has(properties[path[0]], path[1:])


def _as_key(value: JsonValue, field: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise RowRefused(f"Its `{field}` is neither a text nor a whole number, so it cannot be a key.")
    key = str(value)
    if not 0 < len(key) <= MAX_KEY_CHARS:
        raise RowRefused(f"Its `{field}` is empty or longer than {MAX_KEY_CHARS} characters, so it cannot be a key.")
    return key


def _value_at(row: JsonValue, path: str) -> object:
    if isinstance(row, dict) and path in row:
        return row[path]
    value: Any = row
    for part in path.split("."):
        if isinstance(value, dict) and part in value:
            value = cast(Any, value)[part]
        elif isinstance(value, list) and part.isdecimal() and len(part) < 7 and int(part) < len(cast(Any, value)):
            value = cast(Any, value)[int(part)]
        else:
            return _MISSING
    return value


def _place(into: Any, path: Sequence[str], value: JsonValue) -> None:
    """Write the value at a path, with the objects and lists that lead there."""
    here, *rest = path
    if isinstance(into, list):
        _place_in_list(cast(list[Any], into), here, rest, value)
        return
    if not rest:
        into[here] = value
        return
    below = into.setdefault(here, [] if rest[0].isdecimal() else {})
    if not isinstance(below, dict | list):
        raise RowRefused(f"The mapping writes into `{here}`, which has a value of its own.")
    _place(below, rest, value)


def _place_in_list(into: list[Any], here: str, rest: Sequence[str], value: JsonValue) -> None:
    if not here.isdecimal() or len(here) > 3 or int(here) > min(len(into), _LONGEST_LIST):
        raise RowRefused(f"The mapping's `{here}` is no place in a list: they are 0, 1, 2, in this order.")
    at = int(here)
    if at == len(into):
        into.append({} if not rest or not rest[0].isdecimal() else [])
    if rest:
        _place(into[at], rest, value)
    else:
        into[at] = value
