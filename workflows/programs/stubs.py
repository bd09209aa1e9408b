"""Python declarations of tools, made from their JSON Schemas, by which programs are type-checked and written."""

import json
import keyword
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from outlast.activities.contracts import JsonObject

_MAX_DEPTH = 6
_MAX_PARTS = 500
"""Parts of the schemas of one tool that are read: `$ref` can make a small schema endless."""
_MAX_LITERALS = 30
_TYPES = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}
_HEADER = "from typing import Any, Literal, NotRequired, TypedDict\n\n"


def python_name(tool: str) -> str:
    """Return a tool's name as an identifier: `git__git-log` is `git__git_log`."""
    name = re.sub(r"\W", "_", tool, flags=re.ASCII)
    return f"{name}_" if keyword.iskeyword(name) or name[:1].isdigit() else name


@dataclass(frozen=True)
class ProgramTool:
    """A tool as a function of a program."""

    name: str
    """The tool's own name."""
    input_schema: JsonObject
    output_schema: JsonObject | None = None
    description: str = ""

    @property
    def function(self) -> str:
        """Name of the function."""
        return python_name(self.name)

    @property
    def parameters(self) -> Sequence[str]:
        """Names of the arguments, in the order of the schema."""
        return list(_properties(self.input_schema))


def stubs(tools: Iterable[ProgramTool], *, described: bool = False) -> str:
    """Return declarations of tools as `async def`; with `described`, their docstrings, for a model that reads them."""
    return _HEADER + "\n".join(_declaration(tool, described=described) for tool in tools)


@dataclass
class _Types:
    """Classes that a declaration needs, by their names."""

    prefix: str
    definitions: Mapping[str, Any]
    """`$defs` of the schema."""
    classes: dict[str, str] = field(default_factory=dict[str, str])
    left: int = _MAX_PARTS

    def of(self, schema: object, name: str, depth: int = 0) -> str:  # noqa: C901, PLR0911 (one per kind of schema)
        """Return the annotation for a schema. What Python cannot say is `Any`."""
        self.left -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self.left < 0:
            return "Any"
        given = cast("Mapping[str, Any]", schema)
        if "$ref" in given:
            return self.of(self.definitions.get(str(given["$ref"]).removeprefix("#/$defs/")), name, depth + 1)
        if "const" in given:
            return _literal([given["const"]])
        if isinstance(given.get("enum"), list):
            return _literal(given["enum"])
        for key in ("anyOf", "oneOf"):
            if isinstance(given.get(key), list):
                kept = [one for one in given[key] if not _is_compressed(one)]
                if len(kept) == 1:
                    return self.of(kept[0], name, depth + 1)
                return _union([self.of(one, f"{name}{number}", depth + 1) for number, one in enumerate(kept, 1)])
        kind = given.get("type")
        if isinstance(kind, list):
            kinds = cast("list[Any]", kind)
            return _union(
                [self.of({**given, "type": one}, f"{name}{at}", depth + 1) for at, one in enumerate(kinds, 1)]
            )
        if kind == "array":
            return f"list[{self.of(given.get('items'), f'{name}Item', depth + 1)}]"
        if kind == "object" or "properties" in given:
            return self._object(given, name, depth)
        return _TYPES.get(kind, "Any") if isinstance(kind, str) else "Any"

    def _object(self, schema: Mapping[str, Any], name: str, depth: int) -> str:
        properties = _properties(schema)
        if not properties:
            return f"dict[str, {self.of(schema.get('additionalProperties'), f'{name}Value', depth + 1)}]"
        required = schema.get("required") or ()
        entries: list[str] = []
        for key, value in properties.items():
            annotation = self.of(value, f"{name}{_camel(key)}", depth + 1)
            entries.append(f"{key!r}: {annotation if key in required else f'NotRequired[{annotation}]'}")
        class_name = f"{self.prefix}{name}"
        self.classes[class_name] = f"{class_name} = TypedDict({class_name!r}, {{{', '.join(entries)}}})"
        return class_name


def _declaration(tool: ProgramTool, *, described: bool) -> str:
    types = _Types(f"{tool.function}_", _mapping(tool.input_schema.get("$defs")))
    required = tool.input_schema.get("required") or ()
    parameters: list[str] = []
    for name, schema in _properties(tool.input_schema).items():
        if name.isidentifier() and not keyword.iskeyword(name):
            annotation = types.of(schema, _camel(name))
            parameters.append(f"{name}: {annotation}" + ("" if name in cast("list[str]", required) else " = ..."))
    given = "*, " + ", ".join(parameters) if parameters else ""
    if any(not name.isidentifier() for name in tool.parameters):
        given = f"{given}, **more: Any" if given else "**more: Any"
    types.definitions = _mapping((tool.output_schema or {}).get("$defs"))
    answer = types.of(_value_schema(tool.output_schema), "Answer") if tool.output_schema else "Any"
    body = (
        f"\n    {json.dumps(tool.description, ensure_ascii=False)}\n    ..."
        if described and tool.description
        else " ..."
    )
    return "\n".join([*types.classes.values(), f"async def {tool.function}({given}) -> {answer}:{body}\n"])


def _value_schema(schema: JsonObject) -> Any:
    """The schema of the value of a call. A function that returns no object has it in `result`."""
    for one in (schema, *cast("list[Any]", schema.get("anyOf") or ())):
        properties = _properties(_mapping(one))
        if set(properties) == {"result"}:
            return properties["result"]
    return schema


def _is_compressed(schema: object) -> bool:
    """Whether this alternative stands for an answer that was stored. Functions get whole answers."""
    return "compressed" in _properties(_mapping(schema))


def _properties(schema: Mapping[str, Any]) -> dict[str, Any]:
    return dict(_mapping(schema.get("properties")))


def _mapping(value: object) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _literal(values: list[Any]) -> str:
    simple = [one for one in values if one is None or isinstance(one, str | int | bool)]
    if not simple or len(simple) < len(values) or len(simple) > _MAX_LITERALS:
        return "Any"
    return f"Literal[{', '.join(repr(one) for one in simple)}]"


def _union(annotations: list[str]) -> str:
    return "Any" if not annotations or "Any" in annotations else " | ".join(dict.fromkeys(annotations))


def _camel(name: str) -> str:
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^0-9A-Za-z]+", name) if part)
