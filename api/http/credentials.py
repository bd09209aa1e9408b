"""The sender of a request, by its credential. The entrance resolves it, and everything else finds it in the scope."""

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import Scope

from outlast.api.access.callers import CallerResolver
from outlast.api.access.limits.rate_limits import address_of
from outlast.api.access.principal import Principal
from outlast.api.audit.origin import set_key

PRINCIPAL_STATE = "outlast_principal"
"""Key in the ASGI scope: who sends the HTTP request."""
_FORWARDED = (
    "x-forwarded",
    "x-original-",
    "x-envoy-",
    "cf-",
    "x-amzn-",
    "x-appengine-",
    "x-azure-",
    "x-vercel-",
    "fly-",
)
_OF_PROXIES = frozenset(
    {
        "forwarded",
        "via",
        "client-ip",
        "forwarded-for",
        "true-client-ip",
        "x-client-ip",
        "x-cluster-client-ip",
        "x-host",
        "x-originating-ip",
        "x-proxyuser-ip",
        "x-real-ip",
        "x-remote-addr",
        "x-remote-ip",
        "x-scheme",
        "x-url-scheme",
        "fastly-client-ip",
    }
)
"""Headers that proxies, load balancers and tunnels add (RFC 7239, RFC 9110 section 7.6.3, and the usual others)."""


async def resolved_principal(scope: Scope, callers: CallerResolver) -> Principal:
    """The sender of an HTTP request, resolved once. Raises what `CallerResolver.resolve` raises."""
    known: Principal | None = scope.get(PRINCIPAL_STATE)
    if known is not None:
        return known
    headers = Headers(scope=scope)
    principal = await callers.resolve(
        bearer_token(headers), address=address_of(scope), is_forwarded=was_forwarded(headers)
    )
    set_key(principal.key_id)
    return principal


def was_forwarded(headers: Headers) -> bool:
    """Return True if a header shows that a proxy forwarded the request: its sender may not be local."""
    return any(name in _OF_PROXIES or name.startswith(_FORWARDED) for name in headers)


def bearer_token(headers: Headers) -> SecretStr | None:
    """The token of the `Authorization: Bearer …` header (RFC 6750); None without one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return SecretStr(token.strip()) if scheme.lower() == "bearer" and token.strip() else None
