"""JSON-RPC errors: those of the API, and the one of a handler that fails unexpectedly, without details."""

import logging
from collections.abc import Awaitable
from typing import Any, TypeVar

from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR, INVALID_PARAMS
from pydantic import ValidationError

from outlast.api.errors import ApiError, InvalidCall, StorageFull
from outlast.api.mcp.protocol.versions import Context

log = logging.getLogger("outlast.mcp")
Value = TypeVar("Value")


async def with_mcp_errors(awaited: Awaitable[Value], *, except_for: type[ApiError] | None = None) -> Value:
    """The value of `awaited`. Raises an `MCPError` for each `ApiError`; errors of type `except_for` pass unchanged."""
    try:
        return await awaited
    except ApiError as error:
        if except_for is not None and isinstance(error, except_for):
            raise
        raise as_mcp_error(error) from error


def as_mcp_error(error: ApiError) -> MCPError:
    """`error` in the form of JSON-RPC."""
    is_ours = error.status >= 500 and not isinstance(error, StorageFull)
    code = INTERNAL_ERROR if is_ours else INVALID_PARAMS
    data: dict[str, Any] = {"type": error.slug}
    if isinstance(error, InvalidCall):
        data["error"] = error.envelope.model_dump(mode="json", exclude_none=True)
    return MCPError(code, str(error), data=data)


async def hide_defects(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Middleware. The SDK answers a client of 2025-11-25 with the text of the exception, which may hold anything."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        log.exception("The MCP request %r has failed.", ctx.method)
        raise MCPError(INTERNAL_ERROR, "The server failed unexpectedly; its log has the details.") from error
