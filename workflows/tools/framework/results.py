"""Turns the values that handlers return into `ToolResult`."""

import json
from typing import Any, cast

from pydantic import BaseModel, JsonValue, TypeAdapter

from outlast.workflows.contracts.tool_calls import TextContent, ToolResult

_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue])


def as_result(value: object) -> ToolResult:
    """Text, a pydantic model or a dict as a result. Raises `TypeError` for other values, `ValueError` if not JSON."""
    if isinstance(value, ToolResult):
        return value
    if isinstance(value, str):
        return ToolResult(content=(TextContent(text=value),))
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json", by_alias=True)
    if isinstance(value, dict):
        structured = _OBJECT.validate_python(cast(dict[str, Any], value))
        return ToolResult(
            content=(TextContent(text=json.dumps(structured, ensure_ascii=False)),), structured=structured
        )
    raise TypeError(f"A tool answers with text, a dict, a pydantic model or a ToolResult, not {type(value).__name__}.")
