"""Schemas as MCP's forms take them (elicitation, `requestedSchema`): an object of plain fields, without references.

A form has no field for an object or a list of objects: there it asks for JSON as text, which is read back later.
"""

import json
from typing import Any

_PLAIN = frozenset({"string", "number", "integer", "boolean"})

Schema = dict[str, Any]


def form_schema(schema: Schema) -> Schema:
    """`schema` as a form can show it. Clients that know more than forms find the schema itself beside it."""
    definitions: Schema = schema.get("$defs", {})
    fields = {
        name: _field(field, definitions) or _as_json(name, field)
        for name, field in schema.get("properties", {}).items()
    }
    form: Schema = {"type": "object", "properties": fields}
    required = list(schema.get("required", []))
    return {**form, "required": required} if required else form


def from_form(schema: Schema, content: dict[str, Any]) -> dict[str, Any]:
    """What a form was filled in with, as `schema` means it: texts of JSON read, fields left empty left out."""
    definitions: Schema = schema.get("$defs", {})
    return {
        name: _read(value) if _is_json(schema, name, definitions) else value
        for name, value in content.items()
        if not (value == "" and _is_json(schema, name, definitions))
    }


def _is_json(schema: Schema, name: str, definitions: Schema) -> bool:
    fields: dict[str, Schema] = schema.get("properties", {})
    return name in fields and _field(fields[name], definitions) is None


def _read(value: Any) -> Any:
    """What is no JSON stays text; whoever checks the answer says that it does not fit."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _as_json(name: str, field: Schema) -> Schema:
    description = f"{field.get('description', '')} As JSON.".strip()
    return {"type": "string", "title": field.get("title", name), "description": description}


def _field(field: Schema, definitions: Schema) -> Schema | None:
    """One field as a form has it; None when no form has such a thing."""
    found = _resolved(field, definitions)
    alternatives = [entry for entry in found.get("anyOf", []) if entry.get("type") != "null"]
    if len(alternatives) == 1:
        rest = {key: value for key, value in found.items() if key not in ("anyOf", "default")}
        default = {"default": found["default"]} if found.get("default") is not None else {}
        found = {**_resolved(alternatives[0], definitions), **rest, **default}
    if found.get("type") in _PLAIN:
        return found
    items = _resolved(found.get("items", {}), definitions) if found.get("type") == "array" else {}
    return {**found, "items": items} if "enum" in items or "anyOf" in items else None


def _resolved(field: Schema, definitions: Schema) -> Schema:
    """Without its reference into the definitions."""
    reference = field.get("$ref")
    if not isinstance(reference, str):
        return field
    beside = {key: value for key, value in field.items() if key != "$ref"}
    return {**definitions.get(reference.removeprefix("#/$defs/"), {}), **beside}
