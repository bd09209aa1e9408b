"""Scopes that MCP methods need, and the challenge for OAuth clients that lack one (403 instead of a JSON-RPC error)."""

from collections.abc import Mapping
from typing import Any

from mcp.server.context import CallNext, HandlerResult

from outlast.api.access.policy.contracts import ALL_SCOPES, Scope
from outlast.api.access.principal import Principal
from outlast.api.errors import CredentialEnded, ForbiddenScope
from outlast.api.local_tools import LOCAL_TOOL_SCOPES
from outlast.api.mcp.connections import Connections, OpenExchanges, place_of
from outlast.api.mcp.posted_message import PostedMessage
from outlast.api.mcp.protocol.errors import as_mcp_error, with_mcp_errors
from outlast.api.mcp.protocol.versions import Context

_FREE = frozenset({"initialize", "ping", "server/discover"})
_SCOPES: Mapping[str, tuple[Scope, ...]] = {
    # The handler checks the scope that the tool needs.
    "tools/call": tuple(sorted(ALL_SCOPES)),
    "tasks/cancel": ("cancel",),
    "tasks/update": ("call", "approve"),
}
_OTHERS: tuple[Scope, ...] = ("read",)
_USED_BY_MCP: frozenset[Scope] = ALL_SCOPES - {"admin"}


def scopes_of_request(method: str, tool: str | None) -> tuple[Scope, ...]:
    """Return the scopes of which a request needs one; empty if any credential will do. `tool` is the called tool's
    name.
    """
    if method in _FREE or method.startswith("notifications/"):
        return ()
    if method == "tools/call":
        return LOCAL_TOOL_SCOPES.get(tool or "", ("call",))
    return _SCOPES.get(method, _OTHERS)


def scopes_of_message(method: str, params: Mapping[str, Any] | None) -> tuple[Scope, ...]:
    """`scopes_of_request`, for a request with these parameters."""
    tool = (params or {}).get("name")
    return scopes_of_request(method, tool if isinstance(tool, str) else None)


class ScopeGate:
    """Middleware that refuses requests whose key lacks the scope of the method, and keeps track of open requests."""

    def __init__(self, connections: Connections, exchanges: OpenExchanges) -> None:
        self._connections = connections
        self._exchanges = exchanges

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Serve one message. Notifications were admitted before, as responses were."""
        if ctx.method.startswith("notifications/"):
            return await call_next(ctx)
        client = await with_mcp_errors(self._connections.client(ctx))
        if ctx.method not in _FREE:
            try:
                client.principal.require(*_SCOPES.get(ctx.method, _OTHERS))
            except ForbiddenScope as error:
                raise as_mcp_error(error) from error
        place = place_of(ctx, client.principal)
        with self._exchanges.request(place, ctx.request_id, scopes_of_message(ctx.method, ctx.params)):
            return await call_next(ctx)


class CredentialGate:
    """Middleware that ends a request when its credential ends, with a JSON-RPC error."""

    def __init__(self, connections: Connections) -> None:
        self._connections = connections

    async def __call__(self, ctx: Context, call_next: CallNext) -> HandlerResult:
        """Serve one message."""
        principal = await with_mcp_errors(self._connections.principal(ctx))
        try:
            async with principal.lease():
                return await call_next(ctx)
        except CredentialEnded as error:
            raise as_mcp_error(error) from error


def check_scopes(principal: Principal, posted: PostedMessage) -> None:
    """Raise `ForbiddenScope` where the method of a request needs another scope.

    Only for callers who can request another token: the holder of a key gets a JSON-RPC error from the handler, which
    checks the scopes again.
    """
    if principal.resource is None or principal.scopes >= _USED_BY_MCP or not posted.is_request:
        return
    needed = scopes_of_request(posted.method or "", posted.tool)
    if needed:
        principal.require(*needed)
