"""A tool's JSON Schema in a form that providers accept. One rejected schema fails the whole list of tools.

Optional fields, defaults, `$defs` and everything else stay as they are. Three things differ, each only where it must:
an object without `properties` gets none, rules at the top level (such as `anyOf`) move into the description, and fields
whose names no provider takes get other names. The server checks every argument against the tool's own schema.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorEnvelope, Violation
from outlast.api.offer.portable_names import FIELD_NAME, fitting_names
from outlast.workflows.tools.framework.tool import Tool

_REFUSED_AT_THE_TOP = ("oneOf", "anyOf", "allOf", "not", "enum")
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

    def own_arguments(self, arguments: JsonObject) -> JsonObject:
        """A model's arguments under the tool's own names."""
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
    schema = definition.input_schema
    properties = schema.get("properties")
    names = properties if isinstance(properties, dict) else {}
    if not any(keyword in schema for keyword in _REFUSED_AT_THE_TOP) and all(map(FIELD_NAME.fullmatch, names)):
        return None
    return portable(definition, definition.name)


def portable(definition: Tool, name: str) -> PortableTool:
    """`definition` under `name`."""
    schema: JsonObject = {"type": "object", "properties": {}, **definition.input_schema}
    rules = {keyword: schema.pop(keyword) for keyword in _REFUSED_AT_THE_TOP if keyword in schema}
    description = definition.description
    if rules:
        description += f"\n\nThe arguments also have to fit this JSON Schema: {json.dumps(rules, ensure_ascii=False)}"
    return PortableTool(definition, name, description, *_with_fitting_fields(schema))


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
