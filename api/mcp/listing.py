"""Tools as `tools/list` shows them. The wire form of a tool is made once and kept: the same bytes every time."""

import json
from functools import lru_cache
from typing import Any

from api.mcp.results import visible_meta
from workflows.tools.loader import ToolSet
from workflows.tools.tool import Tool


def listed_tools(tools: ToolSet, *, legacy: bool) -> list[dict[str, Any]]:
    """`ListToolsResult.tools`."""
    return [_listed(definition, tools.mode, legacy) for definition in tools.tools.values()]


@lru_cache(maxsize=4_096)
def _listed(definition: Tool, mode: str, legacy: bool) -> dict[str, Any]:
    hints = definition.annotations
    listed: dict[str, Any] = {
        "name": definition.name,
        "title": hints.title,
        "description": definition.description,
        "inputSchema": json.loads(definition.input_schema_json),
        "annotations": {
            "title": hints.title,
            "readOnlyHint": hints.read_only,
            "destructiveHint": hints.destructive,
            "idempotentHint": hints.idempotent,
            "openWorldHint": hints.open_world,
        },
    }
    if definition.output_schema_json is not None:
        listed["outputSchema"] = json.loads(definition.output_schema_json)
    if legacy and not definition.in_front:
        listed["execution"] = {"taskSupport": "optional"}
    meta = visible_meta(definition.meta, mode=mode)
    if meta:
        listed["_meta"] = meta
    return listed
