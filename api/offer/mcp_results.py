"""Converts a `ToolResult` to the result of `tools/call`."""

from typing import Any

from outlast.activities.contracts import JsonObject
from outlast.activities.media import repaired_block
from outlast.api.contracts.visible_meta import visible_meta
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult


def call_result(result: ToolResult, *, mode: str, meta: JsonObject | None = None) -> dict[str, Any]:
    """The wire form (`CallToolResult`). Outside the UI mode no `openai/` key leaves the server."""
    answer: dict[str, Any] = {
        "content": _content(result),
        "isError": result.is_error,
    }
    if result.structured is not None:
        answer["structuredContent"] = result.structured
    if result.error is not None:
        meta = {"outlast/error": result.error.model_dump(mode="json", exclude_none=True), **(meta or {})}
    entries = visible_meta({**result.meta, **(meta or {})}, mode=mode)
    if entries:
        answer["_meta"] = entries
    return answer


def _content(result: ToolResult) -> list[Any]:
    if result.raw_content is not None:
        return [repaired_block(block) for block in result.raw_content]
    return [repaired_block(part.model_dump(mode="json", by_alias=True, exclude_none=True)) for part in result.content]


def text_result(text: str, *, structured: JsonObject | None = None) -> ToolResult:
    """A result with one text block."""
    return ToolResult(content=(TextContent(text=text),), structured=structured)
