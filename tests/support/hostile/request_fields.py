"""The fields of requests, found in their JSON Schemas: so what is added later is tested, too."""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Schema = dict[str, Any]
Place = tuple[str | int, ...]
VALUE = "\u0000the value\u0000"
"""Stands in a document where a value shall be, which need not be one that Python's JSON can write."""
_MONEY = re.compile(r"usd|charge|budget|cost|price", re.IGNORECASE)
_TEXTS = {"date-time": "2030-01-01T00:00:00Z", "date": "2030-01-01", "uri": "https://example.com/", "base64": "eA=="}


@dataclass(frozen=True)
class Field:
    """One field of a request: where it is, and its schema."""

    place: Place
    schema: Schema

    @property
    def name(self) -> str:
        return next(str(part) for part in reversed(self.place) if isinstance(part, str))

    @property
    def is_number(self) -> bool:
        return self.schema.get("type") in ("number", "integer")

    @property
    def is_money(self) -> bool:
        return self.schema.get("type") == "number" and _MONEY.search(self.name) is not None

    def __str__(self) -> str:
        return "/".join(map(str, self.place))


@dataclass(frozen=True)
class Schemas:
    """Schemas that refer to the definitions of one document."""

    definitions: Mapping[str, Schema]

    def fields(self, schema: Schema, place: Place = (), seen: tuple[str, ...] = ()) -> Iterator[Field]:
        """All fields at any depth, each alternative by itself."""
        reference = schema.get("$ref", "")
        if reference in seen:
            return
        schema, seen = self._whole(schema), (*seen, reference) if reference else seen
        for alternative in _alternatives(schema):
            yield from self.fields(alternative, place, seen)
        if isinstance(schema.get("type"), str):
            yield Field(place, schema)
        for name, inner in schema.get("properties", {}).items():
            yield from self.fields(inner, (*place, name), seen)
        if isinstance(schema.get("items"), dict):
            yield from self.fields(schema["items"], (*place, 0), seen)
        if isinstance(schema.get("additionalProperties"), dict):
            names = self._whole(schema.get("propertyNames", {})).get("enum", ["any"])
            yield from self.fields(schema["additionalProperties"], (*place, names[0]), seen)

    def least(self, schema: Schema, place: Place = ()) -> Any:
        """The least value of a schema, and in it `VALUE` at `place`."""
        schema = self._whole(schema)
        for alternative in _alternatives(schema):
            if not place or self._leads_to(alternative, place):
                return self.least(alternative, place)
        if not place and "type" not in schema and "enum" not in schema and "const" not in schema:
            return {}
        if not place:
            return self._least_of_type(schema)
        here, *rest = place
        if isinstance(here, int):
            return [self._at(schema["items"], tuple(rest))]
        inner = schema.get("properties", {}).get(here, schema.get("additionalProperties"))
        return {**self._required(schema), here: self._at(inner, tuple(rest))}

    def _at(self, schema: Schema, place: Place) -> Any:
        return self.least(schema, place) if place else VALUE

    def _leads_to(self, schema: Schema, place: Place) -> bool:
        return any(field.place == place for field in self.fields(schema))

    def _required(self, schema: Schema) -> dict[str, Any]:
        return {name: self.least(schema["properties"][name]) for name in schema.get("required", ())}

    def _least_of_type(self, schema: Schema) -> Any:
        if "const" in schema or "enum" in schema:
            return schema.get("const", schema.get("enum", [None])[0])
        match schema.get("type"):
            case "object":
                return self._required(schema)
            case "array":
                return [self.least(schema["items"]) for _ in range(schema.get("minItems", 0))]
            case "integer" | "number":
                return max(schema.get("minimum", 1), 1)
            case "boolean":
                return False
            case _:
                return _TEXTS.get(schema.get("format", ""), "x" * max(schema.get("minLength", 1), 1))

    def _whole(self, schema: Schema) -> Schema:
        while "$ref" in schema:
            named = self.definitions[schema["$ref"].rpartition("/")[2]]
            schema = {**named, **{key: value for key, value in schema.items() if key != "$ref"}}
        return schema


@dataclass(frozen=True)
class Operation:
    """One operation of a REST document."""

    method: str
    path: str
    document: Schema

    @property
    def schemas(self) -> Schemas:
        return Schemas(self.document["components"]["schemas"])

    @property
    def body(self) -> Schema | None:
        content = self.document["paths"][self.path][self.method].get("requestBody", {}).get("content", {})
        return content.get("application/json", {}).get("schema")

    @property
    def fields(self) -> list[Field]:
        """Of its body."""
        return list(self.schemas.fields(self.body)) if self.body is not None else []

    def parameters(self, kind: str) -> list[Field]:
        """Those in the path, the query or the headers."""
        listed = self.document["paths"][self.path][self.method].get("parameters", [])
        chosen = [one for one in listed if one["in"] == kind]
        return [Field((one["name"],), found.schema) for one in chosen for found in self.schemas.fields(one["schema"])]

    def body_with(self, field: Field, value: str) -> bytes:
        """The least body, with `value` as JSON text in the place of `field`."""
        assert self.body is not None
        return with_value(self.schemas.least(self.body, field.place), value)

    @property
    def url(self) -> str:
        """The path with ids that nothing has."""
        return re.sub(r"{provider}", "anthropic", re.sub(r"{(?!provider})[^}]+}", "nothing-has-this-id", self.path))


def with_value(document: Any, value: str) -> bytes:
    """`document` as JSON text, with `value` in the place of `VALUE`."""
    return json.dumps(document).replace(json.dumps(VALUE), value).encode()


def operations(document: Schema) -> Iterator[Operation]:
    """All operations of a REST document."""
    for path, methods in document["paths"].items():
        for method in methods:
            yield Operation(method, path, document)


def _alternatives(schema: Schema) -> list[Schema]:
    return [*schema.get("anyOf", ()), *schema.get("oneOf", ()), *schema.get("allOf", ())]
