"""The error for a handler that fails unexpectedly: it says that it failed, and gives no details."""

import logging

from mcp.server.context import CallNext, HandlerResult
from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR
from pydantic import ValidationError

from outlast.api.mcp.protocol.versions import Context

log = logging.getLogger("outlast.mcp")


async def hide_defects(ctx: Context, call_next: CallNext) -> HandlerResult:
    """Middleware. The SDK answers a client of 2025-11-25 with the text of the exception, which may hold anything."""
    try:
        return await call_next(ctx)
    except (MCPError, ValidationError):
        raise
    except Exception as error:
        log.exception("The MCP request %r has failed.", ctx.method)
        raise MCPError(INTERNAL_ERROR, "The server failed unexpectedly; its log has the details.") from error
