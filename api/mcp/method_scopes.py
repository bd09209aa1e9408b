"""Which scope each MCP method needs."""

from collections.abc import Mapping

from mcp.server.context import CallNext, HandlerResult

from outlast.api.access.policy.contracts import ALL_SCOPES, Scope
from outlast.api.errors import CredentialEnded, ForbiddenScope
from outlast.api.front_tools import FRONT_TOOL_SCOPES
from outlast.api.mcp.connections import Connections
from outlast.api.mcp.protocol.api_errors import as_mcp_error
from outlast.api.mcp.protocol.versions import Context

_FREE = frozenset({"initialize", "ping", "server/discover"})
_SCOPES: Mapping[str, tuple[Scope, ...]] = {
    # Which of them a call needs depends on the tool; the handler knows it.
    "tools/call": tuple(sorted(ALL_SCOPES)),
    "tasks/cancel": ("cancel",),
    "tasks/update": ("call", "approve"),
}
_OTHERS: tuple[Scope, ...] = ("read",)


def scopes_of_request(method: str, tool: str | None) -> tuple[Scope, ...]:
    """The scopes of which a request needs one; none when any credential will do. `tool` is the called one's name."""
    if method in _FREE or method.startswith("notifications/"):
        return ()
    if method == "tools/call":
        return FRONT_TOOL_SCOPES.get(tool or "", ("call",))
    return _SCOPES.get(method, _OTHERS)


class ScopeGate:
    """Middleware of the MCP server: refuses requests whose key lacks the scope of the method."""

    def __init__(self, connections: Connections) -> None:
        """Ask `connections` who sends a request."""
        self._connections = connections

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Serve one message. Notifications pass: their handlers know what they need."""
        if ctx.method not in _FREE and not ctx.method.startswith("notifications/"):
            client = await self._connections.client(ctx)
            try:
                client.principal.require(*_SCOPES.get(ctx.method, _OTHERS))
            except ForbiddenScope as error:
                raise as_mcp_error(error) from error
        return await call_next(ctx)


class CredentialGate:
    """Middleware of the MCP server: ends a request whose credential ends, with a JSON-RPC error that says why."""

    def __init__(self, connections: Connections) -> None:
        """Ask `connections` who sends a request."""
        self._connections = connections

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Serve one message."""
        principal = await self._connections.principal(ctx)
        try:
            async with principal.lease():
                return await call_next(ctx)
        except CredentialEnded as error:
            raise as_mcp_error(error) from error
