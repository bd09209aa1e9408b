"""Infers the JSON Schema of rows. Pure: the same rows give the same schema."""

import re
from collections.abc import Sequence

import orjson
from pydantic import JsonValue

from outlast.activities.contracts import JsonObject

_FORMATS = {
    "date-time": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII),
    "date": re.compile(r"\d{4}-\d\d-\d\d", re.ASCII),
    "uuid": re.compile(r"[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}", re.ASCII),
    "uri": re.compile(r"[a-zA-Z][a-zA-Z0-9+.-]*://[!-~]+"),
    "email": re.compile(r"[\w.+-]+@[\w-]+(\.[\w-]+)+", re.ASCII),
}
_MAX_DEPTH = 8
_MAX_FIELDS = 200
"""An object with more names than this counts as a map: its names are data."""


def schema_of_items(items: Sequence[JsonValue]) -> JsonObject:
    """A schema that is valid for all `items`: fields that some lack are optional, mixed types become unions. Without
    rows it is `{}`, which is valid for any value.
    """
    return _schema_of(items, depth=0)


def simplified_schema(schema: JsonObject, *, max_bytes: int) -> JsonObject:
    """`schema`, or when it is larger than `max_bytes`, a looser schema that is valid for the same rows. The looser
    schema loses the deepest levels first, then `required`, then the last properties.
    """
    if _size(schema) <= max_bytes:
        return schema
    for depth in range(_MAX_DEPTH, 0, -1):
        shallow = _cut_below(schema, depth)
        if _size(shallow) <= max_bytes:
            return shallow
    return _first_properties(_cut_below(schema, 1), max_bytes)


def _size(schema: JsonObject) -> int:
    return len(orjson.dumps(schema))


def _first_properties(schema: JsonObject, max_bytes: int) -> JsonObject:
    kept: JsonObject = {}
    kind: JsonObject = {"type": schema["type"]} if "type" in schema else {}
    looser: JsonObject = {**kind, "properties": kept}
    properties = schema.get("properties")
    for name, part in properties.items() if isinstance(properties, dict) else ():
        kept[name] = part
        if _size(looser) > max_bytes:
            del kept[name]
            break
    return looser if kept else kind


def _cut_below(schema: JsonObject, depth: int) -> JsonObject:
    """`schema` with at most `depth` levels of properties and items; deeper levels allow any value."""
    kept = {key: value for key, value in schema.items() if key not in ("properties", "items", "required", "anyOf")}
    options = schema.get("anyOf")
    if isinstance(options, list):
        kept["anyOf"] = [_cut_below(option, depth) for option in options if isinstance(option, dict)]
    if depth == 0:
        return kept
    if isinstance(properties := schema.get("properties"), dict):
        kept["properties"] = {
            name: _cut_below(part, depth - 1) for name, part in properties.items() if isinstance(part, dict)
        }
        kept |= {"required": schema["required"]} if "required" in schema else {}
    if isinstance(items := schema.get("items"), dict):
        kept["items"] = _cut_below(items, depth - 1)
    return kept


def _schema_of(values: Sequence[JsonValue], *, depth: int) -> JsonObject:
    scalars = dict.fromkeys(name for value in values if (name := _scalar_type(value)) is not None)
    if "number" in scalars:
        scalars.pop("integer", None)
    objects = [value for value in values if isinstance(value, dict)]
    arrays = [value for value in values if isinstance(value, list)]
    nested: list[JsonObject] = []
    if objects:
        nested.append(_schema_of_objects(objects, depth=depth))
    if arrays:
        nested.append(_schema_of_arrays(arrays, depth=depth))
    strings = [value for value in values if isinstance(value, str)]
    found = _union(list(scalars), nested)
    form = _format_of(strings)
    return {**found, "format": form} if form else found


def _scalar_type(value: JsonValue) -> str | None:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case _:
            return None


def _format_of(strings: Sequence[str]) -> str | None:
    """The format (JSON Schema 2020-12, section 7.3) that all `strings` have. It does not restrict other types."""
    if not strings:
        return None
    return next((name for name, form in _FORMATS.items() if all(map(form.fullmatch, strings))), None)


def _union(scalars: list[str], nested: list[JsonObject]) -> JsonObject:
    if not nested:
        return {"type": scalars[0]} if len(scalars) == 1 else {"type": [*scalars]} if scalars else {}
    if len(nested) == 1 and not scalars:
        return nested[0]
    simple: list[JsonObject] = [{"type": name} for name in scalars]
    return {"anyOf": [*simple, *nested]}


def _schema_of_objects(objects: list[JsonObject], *, depth: int) -> JsonObject:
    fields: dict[str, list[JsonValue]] = {}
    for value in objects:
        for name, part in value.items():
            fields.setdefault(name, []).append(part)
    if depth >= _MAX_DEPTH or len(fields) > _MAX_FIELDS:
        return {"type": "object"}
    properties: JsonObject = {name: _schema_of(parts, depth=depth + 1) for name, parts in fields.items()}
    required: list[JsonValue] = [name for name, parts in fields.items() if len(parts) == len(objects)]
    return {"type": "object", "properties": properties, **({"required": required} if required else {})}


def _schema_of_arrays(arrays: list[list[JsonValue]], *, depth: int) -> JsonObject:
    elements = [element for array in arrays for element in array]
    if depth >= _MAX_DEPTH or not elements:
        return {"type": "array"}
    return {"type": "array", "items": _schema_of(elements, depth=depth + 1)}
