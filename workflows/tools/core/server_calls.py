"""Calls of tools of the operator's MCP servers, as workers run them. Answers are passed on unchanged in every mode."""

from pydantic import JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.mcp_servers.contracts import McpAnswer, McpTool
from outlast.activities.outputs.contracts import StoredOutput
from outlast.workflows.contracts.tool_calls import ServerTarget, TextContent, ToolCall, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.servers import McpServers
from outlast.workflows.tools.answers import compressed_form, describe_stored, restore_hint
from outlast.workflows.tools.core.actor_mcp import as_tool_result
from outlast.workflows.tools.core.server_tools import server_tool
from outlast.workflows.tools.framework.tool import Tool


def server_call(call: ToolCall) -> Tool:
    """Return the definition for a call of a server's tool, whose server checks the arguments."""
    server = call.server
    assert server is not None

    async def call_server(ctx: HandlerContext, arguments: dict[str, JsonValue]) -> ToolResult:
        ctx.say(f"Calling `{server.tool}` of the MCP server {server.server}")
        answered = await McpServers(ctx.call, server, ctx.outputs, ctx.ask_all).call(arguments)
        answer = answered.answer or McpAnswer()
        if answered.stored is None:
            return as_tool_result(answer, tool_name=call.tool)
        return _stored_result(ctx, answered.stored, is_error=answer.is_error)

    target = ServerTarget(server=server.server, tool=server.tool)
    listed = McpTool(
        name=server.tool,
        read_only=server.read_only,
        destructive=server.destructive,
        idempotent=server.repeats_safely,
    )
    return server_tool(call.tool, listed, target, call_server)


def _stored_result(ctx: HandlerContext, output: StoredOutput, *, is_error: bool) -> ToolResult:
    """Return the short form of an answer that was too large for a history."""
    text = f"{describe_stored(output)}\n{restore_hint(output, ctx.offers)}"
    error = ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, ctx.call.tool, "The tool answered with an error.")
    return ToolResult(
        content=(TextContent(text=text),),
        structured=compressed_form(output).structured(),
        locator=output.locator,
        is_error=is_error,
        error=error if is_error else None,
    )
