"""A tool's input schema in words: one line per argument, and an example."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from outlast.cli.show.wording import one_line

_EXAMPLES: dict[str, Any] = {"integer": 1, "number": 1, "boolean": True, "array": [], "object": {}}


@dataclass(frozen=True, slots=True)
class ArgumentWords:
    """One argument as a person reads it."""

    name: str
    type: str
    is_required: bool
    explanation: str


def describe_arguments(schema: Mapping[str, Any]) -> list[ArgumentWords]:
    """Every argument of an input schema, in its order."""
    required = _list(schema.get("required"))
    properties = _object(schema.get("properties")).items()
    return [
        ArgumentWords(name, type_words(_object(part)), name in required, _explanation(_object(part)))
        for name, part in properties
    ]


def example_arguments(schema: Mapping[str, Any]) -> str:
    """The least that has to be given, as JSON, with the schema's own examples where it has some."""
    properties = _object(schema.get("properties"))
    example = {str(name): _example(_object(properties.get(str(name)))) for name in _list(schema.get("required"))}
    return json.dumps(example, ensure_ascii=False)


def type_words(schema: Mapping[str, Any]) -> str:
    """`string`, `number | string`, `any`; null is not mentioned."""
    if "$ref" in schema:
        return "object"
    choices = [type_words(_object(choice)) for choice in _list(schema.get("anyOf"))]
    kind = schema.get("type")
    kinds = choices or [str(part) for part in _list(kind)] or ([kind] if isinstance(kind, str) else [])
    return " | ".join(dict.fromkeys(kind for kind in kinds if kind != "null")) or ("null" if kinds else "any")


def _explanation(schema: Mapping[str, Any]) -> str:
    text = one_line(str(schema.get("description") or schema.get("title") or ""))
    choices = _list(schema.get("enum"))
    text += f" One of {', '.join(map(str, choices))}." if choices else ""
    default = schema.get("default")
    text += f" Default {json.dumps(default)}." if default not in (None, "", [], {}) else ""
    return text.strip()


def _example(schema: Mapping[str, Any]) -> Any:
    for key in ("prefill", "default", "example"):
        if schema.get(key) is not None:
            return schema[key]
    return _EXAMPLES.get(type_words(schema), "…")


def _object(value: object) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: object) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []
