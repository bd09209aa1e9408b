"""What differs between the two protocol eras, as facts about one request."""

from collections.abc import Mapping
from typing import Any

from mcp.server.context import ServerRequestContext
from mcp.shared.exceptions import MCPError
from mcp_types import METHOD_NOT_FOUND
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

TASKS_EXTENSION = "io.modelcontextprotocol/tasks"
UI_EXTENSION = "io.modelcontextprotocol/ui"

Context = ServerRequestContext[Any, Any]


def is_modern(ctx: Context) -> bool:
    """Whether the request speaks 2026-07-28 or later."""
    return ctx.protocol_version in MODERN_PROTOCOL_VERSIONS


def require_modern(ctx: Context) -> None:
    """Raise -32601 for a method that only the newer era has."""
    if not is_modern(ctx):
        raise MCPError(METHOD_NOT_FOUND, "Method not found", data=ctx.method)


def require_legacy(ctx: Context) -> None:
    """Raise -32601 for a method that only the older era has."""
    if is_modern(ctx):
        raise MCPError(METHOD_NOT_FOUND, "Method not found", data=ctx.method)


def client_extensions(ctx: Context) -> Mapping[str, Any]:
    """The extensions that the client of this request knows."""
    capabilities = ctx.session.client_capabilities
    return (capabilities.extensions if capabilities else None) or {}


def knows_tasks(ctx: Context) -> bool:
    """Whether a newer client takes a task as the answer of `tools/call`."""
    return is_modern(ctx) and TASKS_EXTENSION in client_extensions(ctx)


def can_be_asked(ctx: Context) -> bool:
    """Whether the client can put a form before its user (capability `elicitation`)."""
    capabilities = ctx.session.client_capabilities
    return capabilities is not None and capabilities.elicitation is not None
