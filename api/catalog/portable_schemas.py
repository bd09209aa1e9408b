"""Names and JSON Schemas of tools that model providers accept. One rejected schema fails the whole list of tools."""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256

from pydantic import JsonValue

from outlast.activities.contracts import ErrorEnvelope, JsonObject, Violation
from outlast.activities.json_schema.coercion import referenced
from outlast.activities.json_schema.faults import without_faults
from outlast.workflows.tools.framework.tool import Tool

MAX_CHARS = 64
TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
FIELD_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_FIRST_DIGEST_CHARS = 8
_REFUSED_AT_THE_TOP = ("oneOf", "anyOf", "allOf", "not", "enum")
_FULL_DIALECT = "https://json-schema.org/draft/2020-12/schema"
_BY_FIELD = ("dependentRequired", "dependentSchemas")
"""Keywords at the top whose keys, and lists of names, are fields."""


@dataclass(frozen=True)
class PortableTool:
    """A tool that every provider accepts. `fields` maps the names of arguments shown to a model to the tool's own."""

    definition: Tool
    name: str
    description: str
    schema: JsonObject
    fields: dict[str, str]

    @property
    def stays_whole(self) -> bool:
        """True if the tool's schema is kept for clients with all of JSON Schema 2020-12 (MCP 2026-07-28, SEP-2106): it
        declares this dialect in `$schema`, and providers refuse only keywords at its top.
        """
        own = self.definition.input_schema
        is_declared = own.get("$schema") == _FULL_DIALECT
        return is_declared and self.schema == {key: own[key] for key in own if key not in _REFUSED_AT_THE_TOP}

    def own_arguments(self, arguments: JsonObject) -> JsonObject:
        """Return a model's arguments under the tool's own names."""
        return {self.fields.get(name, name): value for name, value in arguments.items()}

    def shown_error(self, error: ErrorEnvelope) -> ErrorEnvelope:
        """`error` with the names that were shown, each followed by the tool's own one where a text quotes it."""
        if not self.fields or not error.violations:
            return error
        shown_as = {own: shown for shown, own in self.fields.items()}
        violations = tuple(_with_shown_names(violation, shown_as) for violation in error.violations)
        return error.model_copy(update={"violations": violations})


@lru_cache(maxsize=4_096)
def repaired(definition: Tool) -> PortableTool | None:
    """`definition` under its own name, if providers refuse its schema as it is; else None."""
    shown = portable(definition, definition.name)
    return None if shown.schema == definition.input_schema else shown


def portable(definition: Tool, name: str) -> PortableTool:
    """`definition` under `name`."""
    own = without_faults(definition.input_schema)
    schema = _as_object(own, own)
    rules = {keyword: schema.pop(keyword) for keyword in _REFUSED_AT_THE_TOP if keyword in schema}
    schema["properties"] = _with_fields_of(rules, schema["properties"], own)
    description = definition.description
    if rules:
        description += f"\n\nThe arguments also have to fit this JSON Schema: {json.dumps(rules, ensure_ascii=False)}"
    return PortableTool(definition, name, description, *_with_fitting_fields(schema))


def _as_object(schema: JsonObject, root: JsonObject) -> JsonObject:
    """`schema`, a part of `root`, with the keywords of an object at its top."""
    top, followed = schema, set[str]()
    while (reference := str(top.get("$ref"))) not in followed:
        target = referenced(root, reference)
        if target is None:
            break
        followed.add(reference)
        top = {**target, **{key: value for key, value in top.items() if key != "$ref"}}
    top = {"type": "object", "properties": {}, **top}
    if top["type"] != "object":
        top["type"] = "object"  # Arguments are an object, whatever else the schema allows.
    if not isinstance(top["properties"], dict):
        top["properties"] = {}
    if "required" in top and not isinstance(top["required"], list):
        del top["required"]
    return top


def _with_fields_of(rules: JsonObject, properties: JsonValue, root: JsonObject) -> JsonObject:
    """`properties` with the fields that only alternatives have (`anyOf`): a model is to see them as fields."""
    found: dict[str, list[JsonValue]] = {}
    for keyword in ("allOf", "anyOf", "oneOf"):
        branches = rules.get(keyword)
        for branch in branches if isinstance(branches, list) else ():
            fields = _as_object(branch, root)["properties"] if isinstance(branch, dict) else None
            for name, field in fields.items() if isinstance(fields, dict) else ():
                known = found.setdefault(name, [])
                if field not in known:
                    known.append(field)
    own = properties if isinstance(properties, dict) else {}
    more = {name: each for name, each in found.items() if name not in own}
    return {**own, **{name: each[0] if len(each) == 1 else {"anyOf": each} for name, each in more.items()}}


def _with_fitting_fields(schema: JsonObject) -> tuple[JsonObject, dict[str, str]]:
    properties = schema["properties"]
    if not isinstance(properties, dict):
        return schema, {}
    shown = fitting_names(properties, FIELD_NAME)
    renamed = {alias: name for alias, name in shown.items() if alias != name}
    if not renamed:
        return schema, {}
    schema["properties"] = {alias: properties[name] for alias, name in shown.items()}
    alias_of = {name: alias for alias, name in shown.items()}
    required = schema.get("required")
    if isinstance(required, list):
        schema["required"] = [alias_of.get(name, name) if isinstance(name, str) else name for name in required]
    for keyword in _BY_FIELD:
        if isinstance(by_field := schema.get(keyword), dict):
            schema[keyword] = {
                alias_of.get(name, name): [alias_of.get(one, one) if isinstance(one, str) else one for one in entry]
                if isinstance(entry, list)
                else entry
                for name, entry in by_field.items()
            }
    return schema, renamed


def _with_shown_names(violation: Violation, shown_as: Mapping[str, str]) -> Violation:
    message = violation.message
    for own, shown in shown_as.items():
        for quote in ("'", '"', "`"):
            message = message.replace(f"{quote}{own}{quote}", f"{quote}{shown}{quote} ({own})")
    own_path = {f"/{own.replace('~', '~0').replace('/', '~1')}": f"/{shown}" for own, shown in shown_as.items()}
    head, separator, rest = violation.path.removeprefix("/").partition("/")
    path = own_path.get(f"/{head}", f"/{head}") if violation.path else ""
    return Violation(path=f"{path}{separator}{rest}", message=message)


def fitting_names(names: Iterable[str], pattern: re.Pattern[str] = TOOL_NAME) -> dict[str, str]:
    """`names` by unique names that match `pattern`, in the same order."""
    own = list(dict.fromkeys(names))
    taken = {name for name in own if pattern.fullmatch(name)}
    fitting: dict[str, str] = {}
    for name in own:
        alias = name if name in taken else _alias(name, taken)
        taken.add(alias)
        fitting[alias] = name
    return fitting


def _alias(name: str, taken: set[str]) -> str:
    digest = sha256(name.encode(errors="surrogatepass")).hexdigest()
    for length in range(_FIRST_DIGEST_CHARS, MAX_CHARS):
        readable = re.sub(r"[^a-zA-Z0-9_-]+", "-", name)[: MAX_CHARS - 1 - length].strip("-")
        alias = f"{readable}-{digest[:length]}" if readable else digest[:length]
        if alias not in taken:
            return alias
    raise ValueError(f"No name can be found for {name!r}: every one is taken.")
