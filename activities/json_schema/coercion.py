"""Arguments in the types of their JSON Schema, if the schema allows no other reading of them. Pure. Models write `null`
for omitted values, lists and objects as JSON in a string, and numbers as strings. A value with another valid reading,
or none, stays as it is: the check of the schema then names it.
"""

from collections.abc import Iterable
from typing import Final, NamedTuple, cast
from urllib.parse import unquote

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject, Violation
from outlast.activities.json_numbers import MAX_INTEGER, MIN_INTEGER, exact_json

MAX_CHANGES: Final = 20
_MOST_VALUES = 50_000
"""Values that are looked at: an input of a million values is not read again for a string in it."""
_MOST_STEPS = 12
"""References and alternatives that are followed for one value."""
_KINDS = ("string", "integer", "number", "boolean", "object", "array", "null")
_KIND_OF: dict[type, str] = {
    type(None): "null",
    bool: "boolean",
    int: "integer",
    str: "string",
    dict: "object",
    list: "array",
}
_BEGINNINGS = '[{-0123456789"'
_NULLS = ("null", "none")
"""As JSON and Python write it."""
_WORDS: dict[str, JsonValue] = {"true": True, "false": False}
_NAMES = {
    "array": "a list",
    "object": "an object",
    "integer": "a number",
    "number": "a number",
    "boolean": "a boolean",
    "string": "a string",
    "null": "null",
}

Kinds = frozenset[str]


class Coerced(NamedTuple):
    """The arguments, and in words what was changed in them, without their values."""

    arguments: JsonObject
    changes: tuple[str, ...]


def coerced(schema: JsonObject, arguments: JsonObject, *, at: str = "") -> Coerced:
    """`arguments` as `schema` reads them. `at` is the JSON Pointer of the whole.

    - `null`, also as a text, is left out where the property is optional and may not be null.
    - A string with JSON becomes the list, object, number, boolean or null where the schema has no string. One with a
      number that no parser keeps stays.
    """
    reading = _Reading(schema)
    value = reading.whole(arguments, at)
    return Coerced(value, tuple(reading.changes[:MAX_CHANGES]))


def with_kinds_sent(violations: Iterable[Violation], value: JsonValue) -> tuple[Violation, ...]:
    """`violations` of `value`; those about a type name the type of the value that was sent."""
    return tuple(_with_kind(violation, value) for violation in violations)


def looks_like_json(text: str) -> bool:
    """Return True if a string looks like a list or an object, valid or not."""
    return text.lstrip()[:1] in ("[", "{")


class _Reading:
    """One reading: the schema that references point into, and what was changed."""

    def __init__(self, root: JsonObject) -> None:
        self._root = root
        self._left = _MOST_VALUES
        self.changes: list[str] = []

    def whole(self, value: JsonObject, at: str) -> JsonObject:
        """Return the arguments as the whole schema reads them: its properties may be behind a reference."""
        return self.object(self._branch(self._root, "object", _MOST_STEPS) or self._root, value, at)

    def object(self, schema: JsonObject, value: JsonObject, at: str) -> JsonObject:
        """Return the object with its properties as `schema` reads them; the same object if nothing changes."""
        properties, required = schema.get("properties"), schema.get("required")
        if not isinstance(properties, dict):
            return value
        needed = required if isinstance(required, list) else []
        read: JsonObject = {}
        for name, entry in value.items():
            inner, place = properties.get(name), f"{at}/{_escaped(name)}"
            if isinstance(inner, dict) and name not in needed and self._is_left_out(inner, entry):
                self._change(place, "null was left out")
            else:
                read[name] = self._value(inner, entry, place) if isinstance(inner, dict) else entry
        is_same = len(read) == len(value) and all(read[name] is value[name] for name in value)
        return value if is_same else read

    def _value(self, schema: JsonObject, value: JsonValue, at: str) -> JsonValue:
        self._left -= 1
        if self._left < 0:
            return value
        kinds = self._kinds(schema, _MOST_STEPS)
        if kinds is not None and kind_of(value) not in kinds:
            value = self._converted(value, kinds, at)
        match value:
            case dict():
                inner = self._branch(schema, "object", _MOST_STEPS)
                return value if inner is None else self.object(inner, value, at)
            case list():
                inner = self._branch(schema, "array", _MOST_STEPS)
                items = inner.get("items") if inner is not None else None
                return self._list(items, value, at) if isinstance(items, dict) else value
            case _:
                return value

    def _list(self, items: JsonObject, value: list[JsonValue], at: str) -> list[JsonValue]:
        read = [self._value(items, entry, f"{at}/{index}") for index, entry in enumerate(value)]
        return value if all(new is old for new, old in zip(read, value, strict=True)) else read

    def _converted(self, value: JsonValue, kinds: Kinds, at: str) -> JsonValue:
        if isinstance(value, str) and "string" not in kinds:
            if "null" in kinds and value.strip().lower() in _NULLS:
                self._change(at, "a string was read as null")
                return None
            found = _parsed(value, kinds)
            kind = kind_of(found)
            if found is not None and kind in kinds:
                how = "a string with JSON" if kind in ("array", "object") else "a string"
                self._change(at, f"{how} was read as {_NAMES[kind]}")
                return found
        return value

    def _change(self, at: str, words: str) -> None:
        if len(self.changes) < MAX_CHANGES:
            self.changes.append(f"{at}: {words}")

    def _is_left_out(self, schema: JsonObject, value: JsonValue) -> bool:
        """Return True if the value is null, also as a text, and the schema accepts neither null nor text."""
        if value is not None and not (isinstance(value, str) and value.strip().lower() in _NULLS):
            return False
        kinds = self._kinds(schema, _MOST_STEPS)
        return kinds is not None and "null" not in kinds and (value is None or "string" not in kinds)

    def _kinds(self, schema: JsonValue, steps: int) -> Kinds | None:
        """Return the types of values that a schema may accept; None without a restriction."""
        if not isinstance(schema, dict) or steps <= 0:
            return None
        found: list[Kinds | None] = [_typed_kinds(schema)]
        if "$ref" in schema:
            found.append(self._kinds(referenced(self._root, schema["$ref"]), steps - 1))
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), list):
                each = [self._kinds(branch, steps - 1) for branch in branches]
                found.append(None if None in each else frozenset[str]().union(*(one for one in each if one)))
        if isinstance(parts := schema.get("allOf"), list):
            found.extend(self._kinds(part, steps - 1) for part in parts)
        told = [one for one in found if one is not None]
        return frozenset[str](_KINDS).intersection(*told) if told else None

    def _branch(self, schema: JsonObject, kind: str, steps: int) -> JsonObject | None:
        """Return the one part of a schema that describes values of this kind; None if there are several."""
        if steps <= 0 or "properties" in schema or "items" in schema:
            return schema if steps > 0 else None
        if "$ref" in schema:
            target = referenced(self._root, schema["$ref"])
            return self._branch(target, kind, steps - 1) if target is not None else None
        branches = schema.get("anyOf") or schema.get("oneOf") or schema.get("allOf")
        if not isinstance(branches, list):
            return schema
        fitting = [
            branch
            for branch in branches
            if isinstance(branch, dict) and kind in (self._kinds(branch, steps - 1) or (kind,))
        ]
        return self._branch(fitting[0], kind, steps - 1) if len(fitting) == 1 else None


def kind_of(value: JsonValue) -> str:
    """Return the kind of a JSON value, by JSON Schema: a number without a fraction is an integer."""
    if isinstance(value, float):
        return "integer" if value.is_integer() else "number"
    return _KIND_OF.get(type(value), "object")


def _typed_kinds(schema: JsonObject) -> Kinds | None:
    """Return the kinds that `type`, `enum` and `const` name, with Apify's `nullable`."""
    given = schema.get("type")
    named = [given] if isinstance(given, str) else given if isinstance(given, list) else None
    if named is not None:
        kinds = {str(kind) for kind in named}
    elif isinstance(choices := schema.get("enum"), list):
        kinds = {kind_of(choice) for choice in choices}
    elif "const" in schema:
        kinds = {kind_of(schema["const"])}
    else:
        return None
    more = {"integer"} if "number" in kinds else set[str]()
    return frozenset(kinds | more | ({"null"} if schema.get("nullable") is True else set[str]()))


def _parsed(text: str, kinds: Kinds) -> JsonValue:
    """Return the value that a string is the JSON of; None for none. Python writes `True` and `False`."""
    stripped = text.strip()
    if stripped.lower() in _WORDS:
        return _WORDS[stripped.lower()]
    if stripped[:1] not in _BEGINNINGS or not stripped:
        return None
    try:
        value = cast(JsonValue, exact_json(stripped))
    except ValueError:
        return None
    if isinstance(value, str):  # some models encode a list or an object twice
        return _parsed(value, kinds) if looks_like_json(value) else None
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        # As a float, a larger one is a number, but no integer that is kept exactly.
        return int(value) if MIN_INTEGER <= value <= MAX_INTEGER else value if "number" in kinds else None
    return value


def _with_kind(violation: Violation, value: JsonValue) -> Violation:
    if not any(words in violation.message for words in ("valid", "of type", "of types", "should be an object")):
        return violation
    sent = _kind_at(value, violation.path)
    if sent is None:
        return violation
    return violation.model_copy(update={"message": f"{violation.message}; you sent {_NAMES[sent]}"})


def _kind_at(value: JsonValue, pointer: str) -> str | None:
    """Return the kind of the value at a JSON Pointer (RFC 6901); None if there is none."""
    for part in pointer.split("/")[1:]:
        name = part.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and name in value:
            value = value[name]
        elif isinstance(value, list) and name.isdecimal() and int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return kind_of(value)


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def referenced(root: JsonObject, reference: JsonValue) -> JsonObject | None:
    """Return the schema within `root` that a `$ref` points to; None for a reference elsewhere, or to nothing."""
    if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
        return None
    found: JsonValue = root
    for part in unquote(reference).split("/")[1:]:
        found = found.get(part.replace("~1", "/").replace("~0", "~")) if isinstance(found, dict) else None
    return found if isinstance(found, dict) else None
