"""Dependencies of the routes: the services, the caller, and common headers.

All are coroutines: FastAPI hands each plain function to a thread, for a part of a millisecond.
"""

import re
from typing import Annotated

from fastapi import Depends, Header, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from outlast.activities.contracts import Caller
from outlast.api.access.principal import Principal
from outlast.api.errors import BadRequest
from outlast.api.http.credentials import resolved_principal
from outlast.api.services import Services

_READING = frozenset({"GET", "HEAD"})
_bearer = HTTPBearer(auto_error=False, description="An API key of this server, or your Apify token.")


async def services_of(request: Request) -> Services:
    """The services of the app that serves `request`."""
    return request.app.state.services


async def principal_of(
    request: Request,
    services: Annotated[Services, Depends(services_of)],
    credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)],
) -> Principal:
    """The principal behind the bearer token, whatever its scopes. Raises `Unauthenticated`."""
    del credentials  # it is for the documentation
    return await resolved_principal(request.scope, services.callers)


async def caller_of(request: Request, principal: Annotated[Principal, Depends(principal_of)]) -> Caller:
    """The caller, whose key may read (GET, HEAD) or start something. Raises `ForbiddenScope`."""
    principal.require("read" if request.method in _READING else "call")
    return principal.caller


async def canceller_of(principal: Annotated[Principal, Depends(principal_of)]) -> Caller:
    """The caller, whose key may cancel and delete. Raises `ForbiddenScope`."""
    principal.require("cancel")
    return principal.caller


async def reader_of(principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
    """Return the principal of a key with the scope to read. Raises `ForbiddenScope`."""
    principal.require("read")
    return principal


async def starter_of(principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
    """Return the principal of a key with the scope to start calls. Raises `ForbiddenScope`."""
    principal.require("call")
    return principal


async def answerer_of(principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
    """Return the principal of a key with a scope to answer questions of tasks. Raises `ForbiddenScope`."""
    principal.require("call", "approve")
    return principal


async def idempotency_key_of(
    idempotency_key: Annotated[
        str | None,
        Header(
            min_length=1,
            max_length=255,
            description="The same key with the same request returns the same task; with another request it is refused.",
        ),
    ] = None,
) -> str | None:
    """The `Idempotency-Key` header (draft-ietf-httpapi-idempotency-key-header)."""
    return idempotency_key


async def preferred_wait_of(
    request: Request,
    prefer: Annotated[
        str | None, Header(description="`wait=N`: wait up to N seconds for the result (RFC 7240).")
    ] = None,
) -> float:
    """Seconds of the `Prefer: wait=N` header, at most the server's own limit; 0 without it."""
    if prefer is None:
        return 0
    match = re.search(r"(?:^|[,;\s])wait\s*=\s*\"?([0-9]+)(?![\w.])", prefer)
    if match is None and "wait" in prefer:
        raise BadRequest("`Prefer: wait=N` takes a whole number of seconds.")
    services = await services_of(request)
    return min(float(match.group(1)), services.settings.max_wait_seconds) if match else 0


async def operator_of(principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
    """Return the principal of a key with the scope to see data of all callers. Raises `ForbiddenScope`."""
    principal.require("admin")
    return principal


ServicesDep = Annotated[Services, Depends(services_of)]
CallerDep = Annotated[Caller, Depends(caller_of)]
CancellerDep = Annotated[Caller, Depends(canceller_of)]
ReaderDep = Annotated[Principal, Depends(reader_of)]
StarterDep = Annotated[Principal, Depends(starter_of)]
AnswererDep = Annotated[Principal, Depends(answerer_of)]
OperatorDep = Annotated[Principal, Depends(operator_of)]
IdempotencyKey = Annotated[str | None, Depends(idempotency_key_of)]
PreferredWait = Annotated[float, Depends(preferred_wait_of)]
