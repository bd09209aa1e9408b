"""The input schema of a single Actor's tool, in the form for clients of Apify's server."""

import re
from typing import cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.tools.core.actor_schema import model_input_schema

MAX_DESCRIPTION_CHARS = 500
MAX_ENUMS_CHARS = 2_000
"""Longest list of values of one field, in characters of all values together."""
_EXAMPLES, _EXAMPLE_CHARS = 10, 60
_CUT = " [Description truncated]"
_KEPT = ("title", "description", "type", "enum", "default", "prefill", "properties", "items", "required")
_FEW: dict[str, tuple[str, ...]] = {"apify/rag-web-browser": ("query", "maxResults", "outputFormats")}
"""Actors whose tool has only some of the fields."""
_DOT, _ENCODED_DOT = ".", "-dot-"


def actor_input_schema(actor: str, tool: str, schema: JsonObject) -> JsonObject:
    """Return the Actor's own schema, reduced for models, with names of fields without dots."""
    given = schema.get("properties")
    given = given if isinstance(given, dict) else {}
    few = _FEW.get(actor)
    guessed = cast(JsonObject, model_input_schema({"properties": given})["properties"])
    names = [name for name, each in given.items() if isinstance(each, dict) and (few is None or name in few)]
    required = [name for name in names if name in _required(schema)]
    properties: JsonObject = {}
    for name in names:
        own = cast(JsonObject, given[name])
        properties[encoded(name)] = _field(own, cast(JsonObject, guessed[name]), must=name in required)
    shaped = {key: schema[key] for key in ("title", "description") if key in schema}
    listed: list[JsonValue] = [
        name for name in required if _DOT not in name and cast(JsonObject, given[name]).get("default") is None
    ]
    identity = f"https://apify.com/mcp/{tool}/schema.json"
    return {**shaped, "type": "object", "properties": properties, "required": listed, "$id": identity}


def shown_schema(schema: JsonObject) -> JsonObject:
    """Return the Actor's own schema without the parts for the platform's form."""
    properties = schema.get("properties")
    if not isinstance(properties, dict):
        return schema
    fields: JsonObject = {
        name: {key: field[key] for key in _KEPT if key in field} if isinstance(field, dict) else field
        for name, field in properties.items()
    }
    return {**schema, "properties": fields}


def encoded(name: str) -> str:
    """Return the name of a field without dots."""
    return name.replace(_DOT, _ENCODED_DOT)


def decoded(arguments: JsonObject) -> JsonObject:
    """Return the arguments under the Actor's own names."""
    return {name.replace(_ENCODED_DOT, _DOT): value for name, value in arguments.items()}


def _required(schema: JsonObject) -> list[JsonValue]:
    names = schema.get("required")
    return names if isinstance(names, list) else []


def _field(field: JsonObject, guessed: JsonObject, *, must: bool) -> JsonObject:
    shaped = {key: field[key] for key in _KEPT if key in field}
    if field.get("isSecret") is True:
        shaped["writeOnly"] = True  # Entry points encrypt these fields (`api/tasks/recorded_arguments.py`).
    if "items" not in shaped and isinstance(guessed.get("items"), dict) and guessed["items"]:
        shaped["items"] = guessed["items"]
    if not shaped.get("properties") and guessed.get("properties"):
        shaped["properties"] = guessed["properties"]
    example = field.get("prefill") if field.get("prefill") not in (None, "", [], {}) else field.get("default")
    if example not in (None, "", [], {}, 0, False):
        shaped["examples"] = [example]
    description = _text(field.get("description"))
    if len(description) > MAX_DESCRIPTION_CHARS:
        description = f"{description[:MAX_DESCRIPTION_CHARS]}{_CUT}"
    if description or must:
        shaped["description"] = f"**REQUIRED** {description}".strip() if must else description
    _without_long_enum(shaped, shaped)
    if isinstance(shaped.get("items"), dict):
        shaped["items"] = items = dict(cast(JsonObject, shaped["items"]))
        _without_long_enum(items, shaped)
    return shaped


def _without_long_enum(holder: JsonObject, described: JsonObject) -> None:
    """Remove a list of values that is too long; the description of the field then has a few of them."""
    choices = holder.pop("enum", None)
    named = [choice for choice in choices if choice != ""] if isinstance(choices, list) else []
    if not named:
        return
    if sum(len(str(choice)) for choice in named) <= MAX_ENUMS_CHARS:
        holder["enum"] = named
        return
    short = [str(choice) for choice in named if len(str(choice)) <= _EXAMPLE_CHARS][:_EXAMPLES]
    choices = f"One of {len(named)} values" + (f", such as {', '.join(short)}." if short else ".")
    described["description"] = f"{described.get('description') or ''}\n\n{choices}".strip()


def _text(value: JsonValue) -> str:
    return re.sub(r"\s+$", "", value) if isinstance(value, str) else ""
