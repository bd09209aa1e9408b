"""Asks OAuth clients for more scopes: 403 with a challenge, as MCP has it, instead of a JSON-RPC error."""

from outlast.api.access.policy.contracts import ALL_SCOPES, Scope
from outlast.api.access.principal import Principal
from outlast.api.mcp.method_scopes import scopes_of_request
from outlast.api.mcp.posted_message import PostedMessage

_USED_BY_MCP: frozenset[Scope] = ALL_SCOPES - {"admin"}


def check_scopes(principal: Principal, posted: PostedMessage) -> None:
    """Raise `ForbiddenScope` where the method of a request needs another scope.

    Only for callers who can get another token: the holder of a key gets a JSON-RPC error. The scopes that a request
    really needs are checked again where it is carried out.
    """
    if principal.resource is None or principal.scopes >= _USED_BY_MCP or not posted.is_request:
        return
    needed = scopes_of_request(posted.method or "", posted.tool)
    if needed:
        principal.require(*needed)
