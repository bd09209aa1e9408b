"""Asks OAuth clients for more scopes: 403 with a challenge, as MCP has it, instead of a JSON-RPC error."""

import asyncio
import json
from collections.abc import Mapping
from typing import cast

from starlette.types import Message, Receive

from outlast.api.access.policy.contracts import ALL_SCOPES, Scope
from outlast.api.access.principal import Principal
from outlast.api.mcp.method_scopes import scopes_of_request

_USED_BY_MCP: frozenset[Scope] = ALL_SCOPES - {"admin"}
_SMALL_BYTES = 64 * 1024


async def checked_scopes(principal: Principal, receive: Receive) -> Receive:
    """A `receive` that gives the same request. Raises `ForbiddenScope` where its method needs another scope.

    Only for callers who can get another token: the holder of a key gets a JSON-RPC error. What the request really needs
    is checked again where it is carried out.
    """
    if principal.resource is None or principal.scopes >= _USED_BY_MCP:
        return receive
    message = await receive()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.request" and not message.get("more_body"):
        small = len(body) <= _SMALL_BYTES
        needed = _needed(body) if small else await asyncio.to_thread(_needed, body)
        if needed:
            principal.require(*needed)
    return _again(message, receive)


def _needed(body: bytes) -> tuple[Scope, ...]:
    """The scopes of which the request needs one; none when it is no request."""
    try:
        request: object = json.loads(body)
    except (ValueError, RecursionError):
        return ()
    if not isinstance(request, Mapping):
        return ()
    fields = cast(Mapping[str, object], request)
    method, params = fields.get("method"), fields.get("params")
    name = cast(Mapping[str, object], params).get("name") if isinstance(params, Mapping) else None
    if not isinstance(method, str) or "id" not in fields:
        return ()
    return scopes_of_request(method, name if isinstance(name, str) else None)


def _again(message: Message, receive: Receive) -> Receive:
    given = False

    async def replayed() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return message

    return replayed
