"""Tools as `tools/list` shows them. An entry is built once and cached, so every list has the same bytes."""

import json
from functools import lru_cache
from typing import Any

from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.offer.mcp_results import visible_meta
from outlast.api.tasks.wait_argument import waits, with_wait_argument
from outlast.workflows.tools.framework.tool import Tool
from outlast.workflows.tools.loader import ToolSet
from outlast.workflows.tools.registry import MODES


def tool_entries(tools: ToolSet, *, legacy: bool, max_wait_seconds: int) -> list[dict[str, Any]]:
    """`ListToolsResult.tools`."""
    return [_tool_entry(definition, tools.mode, legacy, max_wait_seconds) for definition in tools.tools.values()]


def own_schema(definition: Tool, mode: str, max_wait_seconds: int) -> dict[str, Any]:
    """The input schema of a tool under its own names, with the argument that changes the wait."""
    return _with_wait(json.loads(definition.input_schema_json), definition, mode, max_wait_seconds)


def _with_wait(schema: dict[str, Any], definition: Tool, mode: str, max_wait_seconds: int) -> dict[str, Any]:
    return with_wait_argument(schema, max_wait_seconds, MODES[mode].wait) if waits(definition, mode) else schema


@lru_cache(maxsize=4_096)
def _tool_entry(definition: Tool, mode: str, legacy: bool, max_wait_seconds: int) -> dict[str, Any]:
    hints = definition.annotations
    shown = dialect_of(mode).shown(definition)
    if shown is not None and not legacy:
        shown = None if shown.stays_whole else shown
    schema = own_schema(definition, mode, max_wait_seconds)
    entry: dict[str, Any] = {
        "name": definition.name,
        "title": hints.title,
        "description": definition.description if shown is None else shown.description,
        "inputSchema": schema if shown is None else _with_wait(shown.schema, definition, mode, max_wait_seconds),
        "annotations": hints.as_mcp(),
    }
    if definition.output_schema_json is not None:
        entry["outputSchema"] = json.loads(definition.output_schema_json)
    support = dialect_of(mode).task_support(definition) if legacy else None
    if support is not None:
        entry["execution"] = {"taskSupport": support}
    if definition.icon_url is not None:
        entry["icons"] = [{"src": definition.icon_url, "mimeType": "image/png"}]
    meta = visible_meta(definition.meta, mode=mode)
    if meta:
        entry["_meta"] = meta
    return entry
