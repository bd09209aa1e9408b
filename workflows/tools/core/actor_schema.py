"""Conversion of an Actor's input schema (Apify input schema, version 1) to a JSON Schema that models accept.

Parts for forms are removed or described: titles, prefills, units, titles of choices. Only the items of an array without
a schema get stricter. A secret field is `writeOnly`.
"""

import json
import re

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.storages.datasets import schema_of_items

MAX_FIELD_DESCRIPTION_CHARS = 500
MAX_ENUM_CHARS = 2_000
"""A longer list of choices is replaced by examples: the platform checks the choice."""
MAX_EXAMPLE_CHARS = 500
MAX_PATTERN_CHARS = 2_000
"""A longer one is left out: the platform checks it."""

_TYPES = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})
_KEPT = (
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "format",
    "minItems", "maxItems", "uniqueItems", "minProperties", "maxProperties", "default", "const",
)  # fmt: skip
_DATES = {
    "absolute": "A date as YYYY-MM-DD.",
    "relative": "A time span that is counted back from now, as a number and a unit: `3 days`, `2 weeks`, `1 month`.",
    "absoluteOrRelative": "A date as YYYY-MM-DD, or a time span that is counted back from now, such as `3 days`.",
}
"""Notes on each `dateType` of a date picker (Apify input schema, `string`)."""
_DATE_EXAMPLES = {
    "absolute": ("2026-01-31",),
    "relative": ("3 days", "2 weeks", "1 month"),
    "absoluteOrRelative": ("2026-01-31", "3 days"),
}
_MAX_SHOWN_PATTERN_CHARS = 200
_SHOWN_CHOICES = 10
_SHOWN_EXAMPLES = 3

_URL: JsonObject = {"type": "string", "description": "Address, with http:// or https://."}
_ITEMS_BY_EDITOR: dict[str, JsonObject] = {
    # No field is required: a source may also be `{"requestsFromUrl": …}`.
    "requestListSources": {"type": "object", "properties": {"url": _URL}},
    "pseudoUrls": {"type": "object", "properties": {"purl": {"type": "string"}}, "required": ["purl"]},
    "globs": {"type": "object", "properties": {"glob": {"type": "string"}}, "required": ["glob"]},
    "keyValue": {
        "type": "object",
        "properties": {"key": {"type": "string"}, "value": {"type": "string"}},
        "required": ["key", "value"],
    },
    "stringList": {"type": "string"},
}
"""Schemas for the items of an array without a schema, by its editor (Apify input schema, `editor`)."""
_PROXY: JsonObject = {
    "useApifyProxy": {"type": "boolean", "description": "Go through Apify Proxy; true unless you were told otherwise."},
    "apifyProxyGroups": {
        "type": "array",
        "items": {"type": "string"},
        "description": "Groups of proxies to choose from.",
    },
    "apifyProxyCountry": {"type": "string", "description": "Country of the proxies, two letters."},
    "proxyUrls": {"type": "array", "items": {"type": "string"}, "description": "Proxies of your own instead."},
}


def model_input_schema(schema: JsonObject) -> JsonObject:
    """Return the schema of a direct tool's arguments. An Actor without an input schema takes any object."""
    properties = _properties(schema.get("properties"))
    shaped: JsonObject = {"type": "object", "properties": properties}
    required = _required(schema, properties)
    if required:
        shaped["required"] = required
    if schema.get("additionalProperties") is False:
        shaped["additionalProperties"] = False
    return shaped


def _properties(value: JsonValue) -> JsonObject:
    if not isinstance(value, dict):
        return {}
    return {name: _field(field) for name, field in value.items() if isinstance(field, dict)}


def _required(schema: JsonObject, properties: JsonObject) -> list[JsonValue]:
    names = schema.get("required")
    return [name for name in names if isinstance(name, str) and name in properties] if isinstance(names, list) else []


def _field(field: JsonObject) -> JsonObject:
    shaped: JsonObject = {**_type_of(field), **_choices(field)}
    shaped.update({keyword: field[keyword] for keyword in _KEPT if keyword in field})
    if _is_python_pattern(field.get("pattern")):
        shaped["pattern"] = field["pattern"]
    shaped.update(_object_parts(field))
    shaped.update(_array_parts(field))
    shaped.update(_alternatives(field))
    if field.get("isSecret") is True:
        shaped["writeOnly"] = True
    examples = _examples(field)
    if examples:
        shaped["examples"] = examples
    description = _description(field)
    return {**({"description": description} if description else {}), **shaped}


def _type_of(field: JsonObject) -> JsonObject:
    """Return the types without those that JSON Schema lacks (`any`); Apify's `nullable` is a further type."""
    given = field.get("type")
    names = [given] if isinstance(given, str) else given if isinstance(given, list) else []
    types: list[JsonValue] = [name for name in names if isinstance(name, str) and name in _TYPES]
    if len(types) != len(names) or not types:
        return {}
    if field.get("nullable") is True and "null" not in types:
        types.append("null")
    return {"type": types[0] if len(types) == 1 else types}


def _choices(field: JsonObject) -> JsonObject:
    choices = field.get("enum")
    if not isinstance(choices, list) or not choices or len(json.dumps(choices)) > MAX_ENUM_CHARS:
        return {}
    extra: list[JsonValue] = [None] if field.get("nullable") is True and None not in choices else []
    return {"enum": [*choices, *extra]}


def _object_parts(field: JsonObject) -> JsonObject:
    parts: JsonObject = {}
    properties = _properties(field.get("properties"))
    if not properties and field.get("editor") == "proxy":
        properties = dict(_PROXY)
    if properties:
        parts["properties"] = properties
        required = _required(field, properties)
        if required:
            parts["required"] = required
    rest = field.get("additionalProperties")
    if isinstance(rest, bool):
        parts["additionalProperties"] = rest
    elif isinstance(rest, dict):
        parts["additionalProperties"] = _field(rest)
    return parts


def _array_parts(field: JsonObject) -> JsonObject:
    """Return the schema of an array's items, because many models reject an array without one."""
    if field.get("type") != "array":
        return {}
    given = field.get("items")
    items: JsonObject = _field(given) if isinstance(given, dict) else {}
    if not items.get("type") and not _is_composed(items):
        items = {**_guessed_items(field), **items}
    return {"items": items}


def _guessed_items(field: JsonObject) -> JsonObject:
    """Guess the schema of items from the editor, or from the values in the schema."""
    editor = field.get("editor")
    if isinstance(editor, str) and editor in _ITEMS_BY_EDITOR:
        return dict(_ITEMS_BY_EDITOR[editor])
    for keyword in ("prefill", "default", "example"):
        values = field.get(keyword)
        kind = schema_of_items(values).get("type") if isinstance(values, list) else None
        if isinstance(kind, str):
            return {"type": kind}
    return {}


def _alternatives(field: JsonObject) -> JsonObject:
    parts: JsonObject = {}
    for keyword in ("anyOf", "oneOf", "allOf"):
        options = field.get(keyword)
        if isinstance(options, list):
            parts[keyword] = [_field(option) for option in options if isinstance(option, dict)]
    return parts


def _is_composed(schema: JsonObject) -> bool:
    return any(keyword in schema for keyword in ("anyOf", "oneOf", "allOf", "enum"))


def _examples(field: JsonObject) -> list[JsonValue]:
    """Return the prefill of a form, unless it is the default; else the first of very many choices."""
    found: list[JsonValue] = []
    for keyword in ("prefill", "example"):
        value = field.get(keyword)
        if value not in (None, "", [], {}) and value != field.get("default") and value not in found:
            found.append(value)
    given = field.get("examples")
    found += [value for value in given if value not in found] if isinstance(given, list) else []
    choices = field.get("enum") or field.get("enumSuggestedValues")
    if not found and isinstance(choices, list) and "enum" not in _choices(field):
        found = choices
    return [value for value in found[:_SHOWN_EXAMPLES] if len(json.dumps(value)) <= MAX_EXAMPLE_CHARS]


def _description(field: JsonObject) -> str:
    sentences = [_text(field.get("description")) or _text(field.get("title")), *_notes(field)]
    notes = " ".join(sentence for sentence in sentences[1:] if sentence)
    room = MAX_FIELD_DESCRIPTION_CHARS - len(notes) - 1 if notes else MAX_FIELD_DESCRIPTION_CHARS
    return " ".join(part for part in (cut(sentences[0], max(room, 0)), notes) if part)


def _notes(field: JsonObject) -> list[str]:
    """Return the notes that a form would show beside the field."""
    notes: list[str] = []
    unit = _text(field.get("unit"))
    if unit:
        notes.append(f"Unit: {unit}.")
    choices, titles = field.get("enum"), field.get("enumTitles")
    if isinstance(choices, list) and "enum" not in _choices(field):
        notes.append(f"One of {len(choices)} values.")
    elif isinstance(choices, list) and isinstance(titles, list) and len(titles) == len(choices):
        notes.append(_titled_choices(choices, titles))
    if field.get("format") is None and field.get("editor") == "datepicker":
        notes.append(_date_note(field))
    pattern = field.get("pattern")
    if isinstance(pattern, str) and len(pattern) <= _MAX_SHOWN_PATTERN_CHARS and not _is_python_pattern(pattern):
        notes.append(f"It has to match the JavaScript pattern `{pattern}`.")
    return notes


def _date_note(field: JsonObject) -> str:
    """Return a note on the form of a date, or on the field's own pattern if that form does not match it."""
    kind = field.get("dateType")
    kind = kind if isinstance(kind, str) and kind in _DATES else "absolute"
    pattern = field.get("pattern")
    if not isinstance(pattern, str) or not _is_python_pattern(pattern):
        return _DATES[kind]
    if all(re.search(pattern, example) for example in _DATE_EXAMPLES[kind]):
        return _DATES[kind]
    return f"A date or a time span in the form of the pattern `{cut(pattern, _MAX_SHOWN_PATTERN_CHARS)}`."


def _titled_choices(choices: list[JsonValue], titles: list[JsonValue]) -> str:
    """List the choices whose titles differ from their values."""
    pairs = [
        f"`{choice}`: {title}"
        for choice, title in list(zip(choices, titles, strict=True))[:_SHOWN_CHOICES]
        if _letters(title) != _letters(choice)
    ]
    return cut("; ".join(pairs) + ".", MAX_FIELD_DESCRIPTION_CHARS // 2) if pairs else ""


def _letters(value: JsonValue) -> str:
    return re.sub(r"[\W_]", "", str(value)).lower()


def cut(text: str, limit: int) -> str:
    """Return at most `limit` characters of `text`, with an ellipsis if it was cut."""
    return text if len(text) <= limit else text[: max(limit - 1, 0)].rstrip() + "…"


def _text(value: JsonValue) -> str:
    """Return the text without HTML tags."""
    return " ".join(re.sub(r"</?[a-zA-Z][^<>]*>", " ", value).split()) if isinstance(value, str) else ""


def _is_python_pattern(value: JsonValue) -> bool:
    """Return whether a JavaScript pattern is also valid in Python."""
    if not isinstance(value, str) or len(value) > MAX_PATTERN_CHARS:
        return False
    try:
        re.compile(value)
    except (re.error, OverflowError, RecursionError):
        return False
    return True
