"""The sender of a request, by its credential. The entrance resolves it, and everything else finds it in the scope."""

from pydantic import SecretStr
from starlette.datastructures import Headers
from starlette.types import Scope

from outlast.api.access.callers import CallerResolver
from outlast.api.access.limits.addresses import address_of
from outlast.api.access.principal import Principal
from outlast.api.audit.origin import set_key

PRINCIPAL_STATE = "outlast_principal"
"""Key in the ASGI scope: who sends the HTTP request."""


async def resolved_principal(scope: Scope, callers: CallerResolver) -> Principal:
    """The sender of an HTTP request, resolved once. Raises what `CallerResolver.resolve` raises."""
    known: Principal | None = scope.get(PRINCIPAL_STATE)
    if known is not None:
        return known
    principal = await callers.resolve(bearer_token(Headers(scope=scope)), address=address_of(scope))
    set_key(principal.key_id)
    return principal


def bearer_token(headers: Headers) -> SecretStr | None:
    """The token of the `Authorization: Bearer …` header (RFC 6750); None without one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return SecretStr(token.strip()) if scheme.lower() == "bearer" and token.strip() else None
