"""A tool's JSON Schema in a form that providers accept. One rejected schema fails the whole list of tools.

Optional fields, defaults, `$defs` and everything else stay as they are. Three things differ, each only where it must:
an object without `properties` gets none, rules at the top level (such as `anyOf`) move into the description, and fields
whose names no provider takes get other names. The server checks every argument against the tool's own schema.
"""

import json
from dataclasses import dataclass

from outlast.activities.contracts import JsonObject
from outlast.api.offer.portable_names import FIELD_NAME, fitting_names
from outlast.workflows.tools.framework.tool import Tool

_REFUSED_AT_THE_TOP = ("oneOf", "anyOf", "allOf", "not", "enum")


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
    required = schema.get("required")
    if isinstance(required, list):
        alias_of = {name: alias for alias, name in shown.items()}
        schema["required"] = [alias_of.get(name, name) if isinstance(name, str) else name for name in required]
    return schema, renamed
