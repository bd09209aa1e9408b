"""Tools of the MCP servers in the operator's file: their names and their definitions."""

import re

from pydantic import JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.mcp_servers.contracts import McpTool
from outlast.activities.unicode_text import without_hidden
from outlast.workflows.contracts.tool_calls import ServerTarget, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES
from outlast.workflows.tools.core.actor_names import cut_name
from outlast.workflows.tools.framework.tool import Category, Part, Tool, ToolAnnotations, tool

MAX_NAME_CHARS = 50
"""Clients put their own name for the connection before a tool's name, and providers accept 64 characters."""
SEPARATOR = "__"


def server_tool_name(server: str, tool: str) -> str:
    """Return `git__git_log` for the tool `git_log` of the server `git`, in characters that every client accepts.

    Names that are too long, have another character, or could be read as those of another server (`a__b`, `a_`) are cut
    and get a digest.
    """
    plain = f"{server}{SEPARATOR}{tool}"
    name = re.sub(r"[^a-zA-Z0-9_-]", "-", plain)
    is_clear = SEPARATOR not in server and not server.endswith("_")
    if name == plain and len(name) <= MAX_NAME_CHARS and is_clear and tool:
        return name
    return cut_name(name, f"{server}\n{tool}", limit=MAX_NAME_CHARS)


async def _runs_on_a_worker(ctx: HandlerContext, _arguments: dict[str, JsonValue]) -> ToolResult:
    message = f"{ctx.call.tool} is a tool of an MCP server, and its call does not name the server."
    raise ToolError(ErrorEnvelope.permanent(ErrorCategory.VALIDATION, ctx.call.tool, message))


def server_tool(name: str, listed: McpTool, target: ServerTarget, handler: Part = _runs_on_a_worker) -> Tool:
    """Return the definition of a tool that its server describes as `listed`, without characters that nobody sees. Entry
    points need no `handler`.
    """
    builder = (
        tool(name)
        .category(Category.SERVERS)
        .describe(without_hidden(listed.description) or f"Tool {target.tool} of the MCP server {target.server}.")
        .annotate(
            ToolAnnotations(
                title=without_hidden(listed.title or listed.name),
                read_only=listed.read_only,
                destructive=listed.destructive,
                idempotent=listed.idempotent,
                open_world=listed.open_world,
            )
        )
        .args_schema({"type": "object", **_shown_schema(listed.input_schema)})
        .server(handler)
        .of_server(target)
        .long_running()
        .output_threshold(MAX_ANSWER_BYTES)
        .stores_large_outputs()
    )
    return (builder.output_schema(_shown_schema(listed.output_schema)) if listed.output_schema else builder).build()


def _shown_schema(schema: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return a schema without hidden characters in its texts. Names of properties and fixed values stay as they are:
    answers are checked with them, and tools that have some in their arguments are not offered.
    """
    return {key: value if key in ("enum", "const") else _shown(value) for key, value in schema.items()}


def _shown(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        return without_hidden(value)
    if isinstance(value, list):
        return [_shown(one) for one in value]
    return _shown_schema(value) if isinstance(value, dict) else value
