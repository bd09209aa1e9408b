"""Converts a `ToolResult` to the result of `tools/call`."""

from typing import Any

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.media import repaired_block
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.tools.registry import MODES

_UI_PREFIX = "openai/"
_INTERNAL_PREFIX = "outlast/added"


def call_result(result: ToolResult, *, mode: str, meta: JsonObject | None = None) -> dict[str, Any]:
    """Return the wire form (`CallToolResult`). Outside the UI mode no `openai/` key leaves the server."""
    blocks = result.raw_content
    if blocks is None:
        blocks = [part.model_dump(mode="json", by_alias=True, exclude_none=True) for part in result.content]
    answer: dict[str, Any] = {"content": [repaired_block(block) for block in blocks], "isError": result.is_error}
    if result.structured is not None:
        answer["structuredContent"] = result.structured
    if result.error is not None:
        meta = {"outlast/error": result.error.model_dump(mode="json", exclude_none=True), **(meta or {})}
    entries = visible_meta({**result.meta, **(meta or {})}, mode=mode)
    if entries:
        answer["_meta"] = entries
    return answer


def visible_meta(meta: dict[str, JsonValue], *, mode: str) -> dict[str, JsonValue]:
    """Return the entries of `_meta` for clients: no internal ones, and those of widgets only in modes with widgets."""
    visible = {key: value for key, value in meta.items() if not key.startswith(_INTERNAL_PREFIX)}
    known = MODES.get(mode)
    if known is not None and known.has_widgets:
        return visible
    return {key: value for key, value in visible.items() if not key.startswith(_UI_PREFIX)}
