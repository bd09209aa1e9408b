"""The ordered list of wrappers around every handler. Adding one is inserting it into `PIPELINE`."""

from collections.abc import Awaitable, Callable
from typing import Any

from temporalio import workflow
from temporalio.exceptions import CancelledError

from workflows.context import ToolContext
from workflows.models import ToolResult
from workflows.tools.compression import compression
from workflows.tools.tool import Tool

Next = Callable[[], Awaitable[ToolResult]]
Middleware = Callable[[ToolContext, Tool, Next], Awaitable[ToolResult]]


async def abort(ctx: ToolContext, definition: Tool, proceed: Next) -> ToolResult:
    """Fail fast when the call was cancelled before its handler began."""
    if ctx.cancelled:
        raise CancelledError(f"{definition.name} was cancelled before it began.")
    return await proceed()


async def logging(ctx: ToolContext, definition: Tool, proceed: Next) -> ToolResult:
    """Say when a handler starts, finishes and fails."""
    extra: dict[str, Any] = {"tool": definition.name, "caller": ctx.call.caller.id, "session": ctx.call.session_id}
    workflow.logger.info("tool started", extra=extra)
    try:
        result = await proceed()
    except BaseException as error:
        workflow.logger.info("tool ended: %s", type(error).__name__, extra=extra)
        raise
    workflow.logger.info("tool finished", extra={**extra, "is_error": result.is_error})
    return result


PIPELINE: tuple[Middleware, ...] = (abort, logging, compression)


async def run_handler(ctx: ToolContext, definition: Tool) -> ToolResult:
    """Run the tool's handler inside the pipeline. Raises `ToolError` for arguments that break its schema."""
    arguments = definition.parse(ctx.call.arguments)

    async def handle() -> ToolResult:
        return await definition.handler(ctx, arguments)

    proceed: Next = handle
    for middleware in reversed(PIPELINE):
        proceed = _wrap(middleware, ctx, definition, proceed)
    return await proceed()


def _wrap(middleware: Middleware, ctx: ToolContext, definition: Tool, proceed: Next) -> Next:
    async def wrapped() -> ToolResult:
        return await middleware(ctx, definition, proceed)

    return wrapped
