"""Dependencies of the routes: the services, the caller by its credential, common headers, and known query parameters.

All are coroutines: FastAPI hands each plain function to a thread, for a part of a millisecond. A misspelt query
parameter is refused: passing it over would answer with more, or other, than was asked for.
"""

import re
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request, Response
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, SecretStr
from starlette.datastructures import Headers
from starlette.types import Scope

from outlast.activities.contracts import Caller, Violation
from outlast.activities.mcp_servers.texts import CALLER_SECRET
from outlast.api.access.callers import CallerResolver
from outlast.api.access.limits.rate_limits import address_of
from outlast.api.access.principal import Principal
from outlast.api.audit.records import AuditEvent, set_key
from outlast.api.errors import BadRequest
from outlast.api.http.problems import invalid_request, problem_response
from outlast.api.services import Services
from outlast.contracts.base import CallerName
from outlast.workflows.contracts.unknown_fields import MAX_REPORTED, unknown_name

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
    return callers.with_given_secrets(principal, server_secrets(headers))


def server_secrets(headers: Headers) -> dict[str, SecretStr]:
    """The caller's secrets for MCP servers: `Outlast-Secret-GITHUB-TOKEN` is GITHUB_TOKEN. Raises `BadRequest`."""
    found: dict[str, SecretStr] = {}
    for header, value in headers.items():
        if not header.startswith(_OF_SECRETS):
            continue
        name = header.removeprefix(_OF_SECRETS).replace("-", "_").upper()
        if CALLER_SECRET.fullmatch(name) is None or name in found or not 0 < len(value) <= _MAX_SECRET_CHARS:
            raise BadRequest(
                f"The header {header[:100]!r} is not a secret for an MCP server: its name needs letters, digits and "
                f"hyphens, its value 1 to {_MAX_SECRET_CHARS} characters, and each may be there once."
            )
        found[name] = SecretStr(value)
    if len(found) > _MAX_SECRETS:
        raise BadRequest(f"A request may have {_MAX_SECRETS} secrets for MCP servers at most.")
    return found


def was_forwarded(headers: Headers) -> bool:
    """Return True if a header shows that a proxy forwarded the request: its sender may not be local."""
    return any(name in _OF_PROXIES or name.startswith(_FORWARDED) for name in headers)


def bearer_token(headers: Headers) -> SecretStr | None:
    """The token of the `Authorization: Bearer …` header (RFC 6750); None without one."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    return SecretStr(token.strip()) if scheme.lower() == "bearer" and token.strip() else None


_OF_SECRETS = "outlast-secret-"
"""Beginning of headers with secrets for MCP servers."""
_MAX_SECRETS = 16
_MAX_SECRET_CHARS = 8_192
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


async def cancel_principal_of(principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
    """Return the principal of a key with the scope to cancel and delete. Raises `ForbiddenScope`."""
    principal.require("cancel")
    return principal


async def reader_of(principal: Annotated[Principal, Depends(principal_of)]) -> Principal:
    """Return the principal of a key with the scope to read. Raises `ForbiddenScope`."""
    principal.require("read")
    return principal


@dataclass(frozen=True)
class Subject:
    """Whose data a request reads: those of `caller`, or with `every` of all callers."""

    caller: Caller
    every: bool = False


async def subjects_of(
    principal: Annotated[Principal, Depends(reader_of)], caller: Annotated[CallerName, Query()] = None
) -> Subject:
    """Whose lists are read. Raises `ForbiddenScope` for those of others without `admin`."""
    named = principal.callers_named(caller)
    if named == principal.caller.id:
        return Subject(principal.caller)
    return Subject(principal.caller, every=True) if named is None else Subject(Caller(id=named))


async def subject_of(
    request: Request,
    services: Annotated[Services, Depends(services_of)],
    principal: Annotated[Principal, Depends(reader_of)],
    subject: Annotated[Subject, Depends(subjects_of)],
) -> Caller:
    """Whose data is read, one caller's. Each reading of another caller's single resource is in the audit log.

    Raises `BadRequest` for all callers.
    """
    if subject.every:
        raise BadRequest("This is about one caller: name it, `caller=*` does not apply here.")
    if subject.caller.id != principal.caller.id and request.path_params:
        async with services.audit.action(
            AuditEvent.RESOURCE_READ, principal.caller, detail=f"{request.url.path} of {subject.caller.id}"
        ):
            pass
    return subject.caller


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
SubjectDep = Annotated[Caller, Depends(subject_of)]
SubjectsDep = Annotated[Subject, Depends(subjects_of)]
CancelPrincipalDep = Annotated[Principal, Depends(cancel_principal_of)]
PrincipalDep = Annotated[Principal, Depends(principal_of)]
ReaderDep = Annotated[Principal, Depends(reader_of)]
StarterDep = Annotated[Principal, Depends(starter_of)]
AnswererDep = Annotated[Principal, Depends(answerer_of)]
OperatorDep = Annotated[Principal, Depends(operator_of)]
IdempotencyKey = Annotated[str | None, Depends(idempotency_key_of)]
PreferredWait = Annotated[float, Depends(preferred_wait_of)]


_OF_CALLERS = "/v1/"
"""Elsewhere are probes and pages, which may be asked with anything that keeps caches away."""


class KnownParametersRoute(APIRoute):
    """A route that responds 422 to query parameters that its document does not have. All of `/v1` are of this class."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """See `APIRoute`."""
        handle = super().get_route_handler()
        if not self.path.startswith(_OF_CALLERS):
            return handle
        known = frozenset(_names_in(self.dependant))

        async def handle_known(request: Request) -> Response:
            unknown = list(islice((name for name in request.query_params if name not in known), MAX_REPORTED))
            if not unknown:
                return await handle(request)
            found = [Violation.at(("query", name), unknown_name("parameter", name, known)) for name in unknown]
            return problem_response(invalid_request(request.url.path, found))

        return handle_known


def _names_in(dependant: Dependant) -> Iterator[str]:
    """The query parameters of a route and its dependencies; those of a model are its fields."""
    for field in dependant.query_params:
        model = field.field_info.annotation
        if isinstance(model, type) and issubclass(model, BaseModel):
            yield from (inner.alias or name for name, inner in model.model_fields.items())
        else:
            yield field.alias
    for inner in dependant.dependencies:
        yield from _names_in(inner)
