"""Resolves the caller of a request before anything else is done: a stranger's request costs nothing."""

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.api.access.callers import CallerResolver
from outlast.api.access.principal import Principal
from outlast.api.audit.origin import set_key
from outlast.api.errors import ApiError
from outlast.api.http.problems import error_response
from outlast.api.http.server_card import CARD_PATH

PRINCIPAL_STATE = "outlast_principal"
"""Key in the ASGI scope: who sends the HTTP request."""
_UNKNOWN_ADDRESS = "unknown"
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
_FOR_CALLERS = ("/v1/", "/mcp")
"""Below these paths everything belongs to some caller. Elsewhere are probes, metrics and the documentation."""
_FOR_EVERYBODY = frozenset({CARD_PATH})
"""But not this: it says how to become one."""


class CredentialsFirst:
    """ASGI middleware for requests that change something, and all of `/v1` and `/mcp`; responds 401, 429 or 503."""

    def __init__(self, app: ASGIApp, *, callers: CallerResolver) -> None:
        """Pass the requests of callers that `callers` knows to `app`."""
        self._app = app
        self._callers = callers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] == "http" and _needs_caller(scope):
            try:
                scope[PRINCIPAL_STATE] = await resolved_principal(scope, self._callers)
            except ApiError as error:
                await error_response(scope["path"], error)(scope, receive, send)
                return
        await self._app(scope, receive, send)


async def resolved_principal(scope: Scope, callers: CallerResolver) -> Principal:
    """The sender of an HTTP request, resolved once. Raises what `CallerResolver.resolve` raises."""
    known: Principal | None = scope.get(PRINCIPAL_STATE)
    if known is not None:
        return known
    client: tuple[str, int] | None = scope.get("client")
    address = client[0] if client else _UNKNOWN_ADDRESS
    principal = await callers.resolve(bearer_token(Headers(scope=scope)), address=address)
    set_key(principal.key_id)
    return principal


def _needs_caller(scope: Scope) -> bool:
    if scope["method"] == "OPTIONS" or (scope["path"] in _FOR_EVERYBODY and scope["method"] in _SAFE):
        return False
    return scope["method"] not in _SAFE or scope["path"].startswith(_FOR_CALLERS)


def bearer_token(headers: Headers) -> SecretStr | None:
    """The token of the `Authorization: Bearer …` header (RFC 6750); None without one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return SecretStr(token.strip()) if scheme.lower() == "bearer" and token.strip() else None
