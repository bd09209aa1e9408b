"""Tools as `tools/list` shows them. An entry is built once and cached, so every list has the same bytes."""

import json
from functools import lru_cache
from typing import Any

from outlast.api.contracts.visible_meta import visible_meta
from outlast.api.tasks.wait_argument import waits, with_wait_argument
from outlast.workflows.tools.framework.tool import TaskUse, Tool
from outlast.workflows.tools.loader import ToolSet


def tool_entries(tools: ToolSet, *, legacy: bool, max_wait_seconds: int) -> list[dict[str, Any]]:
    """`ListToolsResult.tools`."""
    return [_tool_entry(definition, tools.mode, legacy, max_wait_seconds) for definition in tools.tools.values()]


@lru_cache(maxsize=4_096)
def _tool_entry(definition: Tool, mode: str, legacy: bool, max_wait_seconds: int) -> dict[str, Any]:
    hints = definition.annotations
    schema = json.loads(definition.input_schema_json)
    entry: dict[str, Any] = {
        "name": definition.name,
        "title": hints.title,
        "description": definition.description,
        "inputSchema": with_wait_argument(schema, max_wait_seconds) if waits(definition, mode) else schema,
        "annotations": {
            "title": hints.title,
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
    }
    if definition.output_schema_json is not None:
        entry["outputSchema"] = json.loads(definition.output_schema_json)
    if legacy and not definition.in_front:
        required = definition.task_use is TaskUse.REQUIRED
        entry["execution"] = {"taskSupport": "required" if required else "optional"}
    meta = visible_meta(definition.meta, mode=mode)
    if meta:
        entry["_meta"] = meta
    return entry
