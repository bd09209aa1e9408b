"""Proxied tools of Actors that are MCP servers. Answers are passed on unchanged in every mode."""

from pydantic import JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.mcp_servers.contracts import McpAnswer, McpTool
from outlast.workflows.contracts.tool_calls import ToolCall, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.core.actor_names import proxied_tool_name, split_actor_tool
from outlast.workflows.tools.core.actors import McpToolReport
from outlast.workflows.tools.framework.tool import Category, Tool, ToolAnnotations, tool

_NEVER_REACHED_BYTES = 2_000_000
"""Answers are passed on up to the largest possible size; only a call's own threshold can make them stored."""


async def list_tools_of(ctx: HandlerContext, actor: str) -> tuple[list[McpToolReport], tuple[str, ...]]:
    """Read the server's tools, as details show them, and notes on unusable ones. Raises `ToolError`."""
    listing = await ctx.mcp_actors.listing(actor)
    return [McpToolReport.model_validate(tool.model_dump()) for tool in listing.tools], listing.notes


async def call_tool_of(ctx: HandlerContext, actor: str, tool_name: str, arguments: dict[str, JsonValue]) -> ToolResult:
    """Call one tool of the server and return its answer. Raises `ToolError` if it does not exist."""
    ctx.say(f"Calling `{tool_name}` of the MCP server {actor}")
    answer = await ctx.mcp_actors.call(actor, tool_name, arguments)
    return as_tool_result(answer, tool_name=ctx.call.tool)


def as_tool_result(answer: McpAnswer, *, tool_name: str) -> ToolResult:
    """Return the server's answer unchanged. An error also gets an envelope, so that failures can be counted."""
    result = ToolResult(
        raw_content=answer.content, structured=answer.structured, is_error=answer.is_error, meta=answer.meta
    )
    if not answer.is_error:
        return result
    envelope = ErrorEnvelope.permanent(
        ErrorCategory.UNKNOWN, tool_name, result.headline or "The proxied tool answered with an error."
    )
    return result.model_copy(update={"error": envelope})


def proxied_tool(actor: str, listed: McpTool) -> Tool:
    """Return the definition for the tool `listed` of `actor` (`user/name`), without its server's widgets."""

    async def call_proxied(ctx: HandlerContext, arguments: dict[str, JsonValue]) -> ToolResult:
        return await call_tool_of(ctx, actor, listed.name, arguments)

    builder = (
        tool(proxied_tool_name(actor, listed.name))
        .category(Category.ACTORS)
        .describe(listed.description or f"Tool {listed.name} of the MCP server {actor}.")
        .annotate(
            ToolAnnotations(
                title=listed.title or listed.name,
                read_only=listed.read_only,
                destructive=listed.destructive,
                idempotent=listed.idempotent,
                open_world=listed.open_world,
            )
        )
        .args_schema({"type": "object", **listed.input_schema})
        .server(call_proxied, actor=f"{actor}:{listed.name}")
        .long_running()
        .output_threshold(_NEVER_REACHED_BYTES)
        .keep_output_schema()
    )
    return (builder.output_schema(listed.output_schema) if listed.output_schema else builder).build()


def proxied_tools(actor: str, listed: tuple[McpTool, ...]) -> tuple[Tool, ...]:
    """Return the definitions for all tools of an Actor that is an MCP server."""
    return tuple(proxied_tool(actor, each) for each in listed)


def proxied_call(call: ToolCall) -> Tool:
    """Return the definition for a call of a proxied tool, whose server checks the arguments."""
    actor, tool_name = split_actor_tool(call.actor or "")
    return proxied_tool(actor, McpTool(name=tool_name or ""))


def tool_not_named(tool: str, actor: str) -> ErrorEnvelope:
    """Return the error for a call of an MCP server that names none of its tools."""
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool,
        f"When calling an MCP server Actor, you must specify the tool name: `{actor}:tool`. Nothing was started.",
        hint="fetch-actor-details with `output: {mcpTools: true}` lists its tools.",
    )


def standby_without_server(tool: str, actor: str) -> ErrorEnvelope:
    """Return the error for an Actor that only serves HTTP and takes no input, so that its run would not end."""
    return ErrorEnvelope.permanent(
        ErrorCategory.VALIDATION,
        tool,
        f'Actor "{actor}" runs in standby mode without an MCP server, and takes no input. Nothing was started.',
        hint="Send HTTP requests to its own address, which its README names.",
    )
