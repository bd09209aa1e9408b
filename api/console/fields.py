"""Form fields from a JSON Schema, and the document that a filled form means."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast

from pydantic import JsonValue

from outlast.api.console.framework import Form
from outlast.api.errors import BadRequest

_MAX_FIELDS = 100
Kind = Literal["text", "number", "integer", "boolean", "choice", "json", "secret"]


@dataclass(frozen=True)
class Field:
    """A field of a form, for one property of an object."""

    name: str
    kind: Kind
    title: str
    description: str
    is_required: bool
    value: str
    choices: tuple[str, ...] = ()


def fields_of(schema: Mapping[str, Any], values: Mapping[str, JsonValue] | None = None) -> list[Field]:
    """The fields of an object's schema, required ones first, with `values` or the defaults of the schema."""
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict):
        return []
    names = set(cast("Sequence[str]", required)) if isinstance(required, list) else set[str]()
    found = [
        _field(str(name), about, is_required=name in names, value=(values or {}).get(name))
        for name, about in cast("dict[str, dict[str, Any] | bool]", properties).items()
        if isinstance(about, dict)
    ]
    return sorted(found, key=lambda one: not one.is_required)[:_MAX_FIELDS]


def document_of(schema: Mapping[str, Any], form: Form) -> dict[str, JsonValue]:
    """The object that a filled form means: fields that were left empty are absent. Raises `BadRequest`."""
    document: dict[str, JsonValue] = {}
    for one in fields_of(schema):
        text = form.text(f"field-{one.name}")
        if one.kind == "boolean":
            if text or one.is_required:
                document[one.name] = text == "true"
        elif text or (one.is_required and one.kind == "text"):
            document[one.name] = _value(one, text)
    return document


def _field(name: str, about: dict[str, Any], *, is_required: bool, value: JsonValue) -> Field:
    kind, choices = _kind(about)
    start = about.get("default", about.get("prefill")) if value is None else value
    shown = "" if start is None else start if isinstance(start, str) else json.dumps(start, ensure_ascii=False)
    title, description = about.get("title"), about.get("description")
    return Field(name, kind, str(title or name), str(description or ""), is_required, shown, choices)


def _kind(about: dict[str, Any]) -> tuple[Kind, tuple[str, ...]]:
    names = about.get("enum")
    if isinstance(names, list) and all(isinstance(one, str) for one in cast("list[object]", names)):
        return "choice", tuple(cast("list[str]", names))
    match about.get("type"):
        case "string":
            return ("secret" if about.get("isSecret") else "text"), ()
        case "number":
            return "number", ()
        case "integer":
            return "integer", ()
        case "boolean":
            return "boolean", ()
        case _:
            return "json", ()


def _value(one: Field, text: str) -> JsonValue:
    if one.kind in ("text", "choice", "secret"):
        return text
    try:
        return json.loads(text)
    except ValueError as error:
        raise BadRequest(f"{one.name}: {error}. Write {'a number' if one.kind != 'json' else 'JSON'}.") from None
