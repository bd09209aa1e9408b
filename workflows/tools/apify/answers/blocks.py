"""The content blocks of answers: the structured form as compact JSON, and what it means in sentences."""

import json

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import Content, TextContent, ToolResult

_SENTENCES = ("summary", "nextStep")


def with_sentences(structured: JsonObject, *, whole_text: bool = False, more: tuple[Content, ...] = ()) -> ToolResult:
    """Two texts: the data as JSON, and `summary` and `nextStep` in lines of their own.

    With `whole_text` the JSON holds these two as well.
    """
    shown = structured if whole_text else {name: value for name, value in structured.items() if name not in _SENTENCES}
    lines = "\n".join(str(structured[name]) for name in _SENTENCES if name in structured)
    return ToolResult(content=(TextContent(text=compact(shown)), TextContent(text=lines), *more), structured=structured)


def only_json(structured: JsonObject) -> ToolResult:
    """One text: the data as JSON."""
    return ToolResult(content=(TextContent(text=compact(structured)),), structured=structured)


def texts(structured: JsonObject, *blocks: str) -> ToolResult:
    """Texts, and the structured form beside them."""
    return ToolResult(content=tuple(TextContent(text=block) for block in blocks), structured=structured)


def compact(value: JsonValue) -> str:
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
