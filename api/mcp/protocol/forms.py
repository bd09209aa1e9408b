"""Schemas as MCP forms accept them (elicitation, `requestedSchema`): an object of plain fields, without references.

A form has no field for an object or a list of objects. The form asks for those as JSON text, which is parsed later.
"""

from typing import Any

from outlast.activities.json_numbers import exact_json

_PLAIN = frozenset({"string", "number", "integer", "boolean"})

Schema = dict[str, Any]


def form_schema(schema: Schema) -> Schema:
    """`schema` as a form can show it. Clients that support more find the original schema in `_meta`."""
    definitions: Schema = schema.get("$defs", {})
    fields = {
        name: _form_field(field, definitions) or _json_field(name, field)
        for name, field in schema.get("properties", {}).items()
    }
    form: Schema = {"type": "object", "properties": fields}
    required = list(schema.get("required", []))
    return {**form, "required": required} if required else form


def from_form(schema: Schema, content: dict[str, Any]) -> dict[str, Any]:
    """The content of a form as `schema` defines it: JSON text parsed, empty JSON fields removed."""
    definitions: Schema = schema.get("$defs", {})
    return {
        name: _parsed_json(value) if _is_json_field(schema, name, definitions) else value
        for name, value in content.items()
        if not (value == "" and _is_json_field(schema, name, definitions))
    }


def _is_json_field(schema: Schema, name: str, definitions: Schema) -> bool:
    fields: dict[str, Schema] = schema.get("properties", {})
    return name in fields and _form_field(fields[name], definitions) is None


def _parsed_json(value: Any) -> Any:
    """Text that is not JSON stays text; the check of the answer reports it."""
    try:
        return exact_json(value) if isinstance(value, str) else value
    except ValueError:
        return value


def _json_field(name: str, field: Schema) -> Schema:
    description = f"{field.get('description', '')} As JSON.".strip()
    return {"type": "string", "title": field.get("title", name), "description": description}


def _form_field(field: Schema, definitions: Schema) -> Schema | None:
    """One field as a form shows it; None when a form cannot show it."""
    found = _dereferenced(field, definitions)
    alternatives = [entry for entry in found.get("anyOf", []) if entry.get("type") != "null"]
    if len(alternatives) == 1:
        rest = {key: value for key, value in found.items() if key not in ("anyOf", "default")}
        default = {"default": found["default"]} if found.get("default") is not None else {}
        found = {**_dereferenced(alternatives[0], definitions), **rest, **default}
    if found.get("type") in _PLAIN:
        return found
    items = _dereferenced(found.get("items", {}), definitions) if found.get("type") == "array" else {}
    return {**found, "items": items} if "enum" in items or "anyOf" in items else None


def _dereferenced(field: Schema, definitions: Schema) -> Schema:
    """`field` with its `$ref` replaced by the definition."""
    reference = field.get("$ref")
    if not isinstance(reference, str):
        return field
    beside = {key: value for key, value in field.items() if key != "$ref"}
    return {**definitions.get(reference.removeprefix("#/$defs/"), {}), **beside}
