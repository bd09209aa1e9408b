"""JSON-RPC messages that were posted: their envelope, read before the MCP SDK reads them, and scopes of methods."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, cast

import mcp_types as types
from mcp.server.context import CallNext, HandlerResult
from pydantic import ValidationError
from pydantic_core import from_json
from starlette.responses import Response
from starlette.types import Receive

from outlast.activities.contracts import Violation
from outlast.activities.json_numbers import number_flaws
from outlast.api.access.policy.contracts import ALL_SCOPES, Scope
from outlast.api.access.principal import Principal
from outlast.api.errors import CredentialEnded, ForbiddenScope
from outlast.api.http.request_body import again
from outlast.api.local_tools import LOCAL_TOOL_SCOPES
from outlast.api.mcp.connections import Connections, OpenExchanges, place_of
from outlast.api.mcp.protocol.versions import Context, as_mcp_error, with_mcp_errors

_SMALL_BYTES = 64 * 1024
_NO_ID = object()
_MAX_FLAWS = 20
_MAX_DIGITS = 40
_MAX_METHOD_CHARS = 100
NOTIFICATIONS = "notifications/"
"""Prefix of the methods of notifications."""


@dataclass(frozen=True)
class PostedMessage:
    """The message in an HTTP request."""

    method: str | None = None
    """None for a response to a request of the server, and for what is no message."""
    tool: str | None = None
    """The name in the parameters; of `tools/call` that of the tool."""
    request_id: object = _NO_ID
    message: types.JSONRPCMessage | None = None
    """The message as the SDK reads it, so that both see the same; None for what it will refuse."""
    number_flaws: tuple[Violation, ...] = ()
    """Numbers in it that a parser would change."""

    @classmethod
    def parse(cls, body: bytes) -> Self:
        """Never raises: what cannot be read is an empty message, for which the SDK has the error."""
        flaws = number_flaws(body)
        try:
            # Only the first digits: Python refuses to read thousands of them.
            document: object = (
                json.loads(body, parse_int=lambda digits: int(digits[:_MAX_DIGITS])) if flaws else from_json(body)
            )
        except (ValueError, RecursionError):
            return cls()
        if not isinstance(document, Mapping):
            return cls()
        fields = cast(Mapping[str, Any], document)
        method, params = fields.get("method"), fields.get("params")
        name: object = cast(Mapping[str, Any], params).get("name") if isinstance(params, Mapping) else None
        return cls(
            method=method if isinstance(method, str) else None,
            tool=name if isinstance(name, str) else None,
            request_id=fields.get("id", _NO_ID),
            message=_message_in(fields),
            number_flaws=flaws,
        )

    @property
    def is_request(self) -> bool:
        """True if it needs an answer."""
        return self.method is not None and self.request_id is not _NO_ID

    @property
    def bad_id(self) -> str | None:
        """The problem of a request's id (MCP, Basic Protocol, Requests); None for a valid one.

        The SDK treats such a request as a notification, and its client would wait for ever.
        """
        if self.method is None or (isinstance(self.request_id, str | int) and not isinstance(self.request_id, bool)):
            return None
        if self.request_id is not _NO_ID:
            return f"The id of a request must be a string or an integer; this one is {_kind_of(self.request_id)}."
        if self.method.startswith(NOTIFICATIONS):
            return None
        return f"The id of a request must be a string or an integer, and {self.method[:_MAX_METHOD_CHARS]!r} has none."

    def refusal(self, *, is_handshake_era: bool) -> Response | None:
        """Return the answer to a message that the SDK must not see; None for any other."""
        if self.bad_id is not None:
            return _error_response(types.INVALID_REQUEST, self.bad_id, None, 400)
        if not self.number_flaws:
            return None
        shown = self.number_flaws[:_MAX_FLAWS]
        reason = "; ".join(f"{flaw.path}: {flaw.message}" for flaw in shown)
        if not self.is_request:
            return _error_response(types.INVALID_PARAMS, reason, None, 400)
        # Clients of the versions with a handshake read no errors in answers that are not 200.
        status = 200 if is_handshake_era else 400
        return _error_response(types.INVALID_PARAMS, reason, cast(str | int, self.request_id), status)


async def posted_message(receive: Receive) -> tuple[PostedMessage, Receive]:
    """Return the message of an HTTP request, and a `receive` that repeats the request.

    The middleware of the API passes the body as one piece.
    """
    first = await receive()
    body: bytes = first.get("body", b"")
    small = len(body) <= _SMALL_BYTES
    posted = PostedMessage.parse(body) if small else await asyncio.to_thread(PostedMessage.parse, body)
    return posted, again(first, receive)


def _error_response(code: int, reason: str, request_id: str | int | None, status: int) -> Response:
    """Build an error; the id is null if the message has no valid one (JSON-RPC 2.0, section 5)."""
    error = types.JSONRPCError(jsonrpc="2.0", id=request_id, error=types.ErrorData(code=code, message=reason))
    return Response(error.model_dump_json(exclude_unset=True), status_code=status, media_type="application/json")


def _message_in(document: object) -> types.JSONRPCMessage | None:
    try:
        return types.jsonrpc_message_adapter.validate_python(document, by_name=False)
    except ValidationError:
        return None


def _kind_of(value: object) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case float():
            return "a number with a fraction"
        case _:
            return "an array" if isinstance(value, list) else "an object"


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
