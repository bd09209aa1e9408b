"""The state of one client connection: its mode and selection of tools, its caller, and the Actors it has added.

Over HTTP the URL holds mode and selection (`/mcp?mode=openai&tools=docs,apify/rag-web-browser`). Added Actors belong to
the session in 2025-11-25. In 2026-07-28, which has no sessions, they belong to the caller and the URL.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import cast

from cachetools import LRUCache
from pydantic import SecretStr
from starlette.requests import Request

from outlast.activities.contracts import Caller
from outlast.api.access.principal import Principal
from outlast.api.audit.origin import Origin, set_origin
from outlast.api.errors import BadRequest, IssuerUnavailable, KeyChecksBusy, PlatformUnavailable, UnknownParameter
from outlast.api.http.credentials_first import PRINCIPAL_STATE
from outlast.api.mcp.protocol.versions import Context, client_facts, session_of
from outlast.api.mcp.subscriptions.tool_list_changes import ToolListChanges
from outlast.api.services import Services
from outlast.workflows.tools.framework.selection import Parameters, Selection, UnknownName
from outlast.workflows.tools.loader import ToolSet, normalised_mode
from outlast.workflows.tools.registry import MODES, selection_rules

PAYMENT_SIGNATURE_HEADER = "payment-signature"
_MAX_CONNECTIONS = 10_000
_TOOLS_TTL_SECONDS = 300

ConnectionKey = tuple[str, ...]
"""What tells a connection from others: its caller, and its session or selection."""


@dataclass
class Connection:
    """State of one connection."""

    key: ConnectionKey
    selection: Selection
    added_actors: list[str] = field(default_factory=list[str])
    tools: ToolSet | None = None
    tools_loaded_at: float = 0.0
    """`time.monotonic()`, in seconds."""
    log_level: str | None = None
    """The level of the last `logging/setLevel` (2025-11-25)."""
    tool_list_changes: ToolListChanges = field(default_factory=ToolListChanges)


@dataclass(frozen=True)
class Client:
    """The sender of a request: who it is, and its connection."""

    principal: Principal
    connection: Connection

    @property
    def caller(self) -> Caller:
        """Whose tasks it sees."""
        return self.principal.caller

    @property
    def mode(self) -> str:
        """The connection's mode."""
        return self.connection.selection.mode


class ActorNotLoaded(Exception):
    """The platform has no such Actor for this caller, or its tools cannot be read now."""


class Connections:
    """The 10,000 connections that were used last. A forgotten connection loses only the Actors it has added."""

    def __init__(
        self, services: Services, *, selection: Selection | None = None, token: SecretStr | None = None
    ) -> None:
        """`selection` and `token` are those of the only connection over stdio."""
        self._services = services
        self._selection = selection or Selection(mode=services.settings.mode)
        self._token = token
        self._last_known: Principal | None = None
        self._connections: LRUCache[ConnectionKey, Connection] = LRUCache(_MAX_CONNECTIONS)

    async def client(self, ctx: Context) -> Client:
        """The client that sent the request. Raises what `principal` raises."""
        request, principal = http_request(ctx), await self.principal(ctx)
        if request is None:
            set_origin(Origin("mcp-stdio", key=principal.key_id))
            return Client(principal, self._connection(("stdio",), self._selection, ctx))
        caller_id = principal.caller.id
        selection = self.selection_of(request)
        session = session_of(request)
        # Not one text: callers' ids and the header may have any character.
        key = (caller_id, "session", session) if session else (caller_id, "query", request.url.query)
        return Client(principal, self._connection(key, selection, ctx))

    async def principal(self, ctx: Context) -> Principal:
        """The principal that sent the message. Raises `Unauthenticated` as `local_principal` does."""
        request = http_request(ctx)
        return await self.local_principal() if request is None else request.scope[PRINCIPAL_STATE]

    async def local_principal(self) -> Principal:
        """The caller over stdio, as its credential is now. Raises `Unauthenticated` when it is no longer good.

        While the credential cannot be checked, the result of the last check holds.
        """
        try:
            self._last_known = await self._services.callers.resolve(self._token)
        except (PlatformUnavailable, IssuerUnavailable, KeyChecksBusy):
            if self._last_known is None:
                raise
        return self._last_known

    def selection_of(self, request: Request) -> Selection:
        """The selection in the request's URL. Raises `BadRequest` for an unknown mode or payment."""
        return selection_from(parameters_of(request), default_mode=self._services.settings.mode)

    async def tools(self, client: Client) -> ToolSet:
        """The tools of the connection, including those of its added Actors."""
        connection = client.connection
        is_fresh = time.monotonic() - connection.tools_loaded_at < _TOOLS_TTL_SECONDS
        if connection.tools is None or not is_fresh:
            connection.tools = await self._load_tools(client)
            connection.tools_loaded_at = time.monotonic()
        return connection.tools

    async def add_actor(self, client: Client, actor: str) -> bool:
        """Offer `actor` from now on. Returns False when it is offered already. Raises `ActorNotLoaded`."""
        tools = await self.tools(client)
        payment = client.connection.selection.payment
        loaded = await self._services.catalogue.actor_tools(client.mode, actor, client.caller)
        definitions = [definition for definition in loaded if payment is None or payment.can_pay(definition)]
        if not definitions:
            raise ActorNotLoaded(actor)
        if all(definition.name in tools.tools for definition in definitions):
            return False
        client.connection.added_actors.append(actor)
        client.connection.tools = None
        return True

    async def _load_tools(self, client: Client) -> ToolSet:
        selection = client.connection.selection
        if selection.payment is not None and selection.payment.needs_terms:
            payment = selection.payment.with_terms(await self._services.payment_terms.x402())
            selection = client.connection.selection = replace(selection, payment=payment)
        added = tuple(client.connection.added_actors)
        return await self._services.catalogue.load(replace(selection, added_actors=added), client.caller)

    def _connection(self, key: ConnectionKey, selection: Selection, ctx: Context) -> Connection:
        if selection_rules(selection.mode).shows_clients:
            # Two clients of one caller and URL may have different lists.
            facts = client_facts(ctx)
            selection = replace(selection, client=facts)
            key = (*key, facts.name, str(facts.is_modern), str(facts.shows_apps))
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = Connection(key, selection)
        return connection


def http_request(ctx: Context) -> Request | None:
    """The HTTP request that carried the message; None over stdio."""
    request: object = ctx.request
    return cast(Request, request) if isinstance(request, Request) else None


def payment_signature(ctx: Context) -> str | None:
    """The header in which a payment may come with an HTTP request (x402)."""
    request = http_request(ctx)
    return request.headers.get(PAYMENT_SIGNATURE_HEADER) if request is not None else None


def parameters_of(request: Request) -> Parameters:
    """The parameters of the request's URL."""
    query = request.query_params
    return {name: query.getlist(name) for name in query}


def selection_from(
    parameters: Parameters, *, default_mode: str, environment: Mapping[str, str] | None = None
) -> Selection:
    """The selection in a URL's parameters, or in command-line options: `mode`, and what the mode knows.

    `environment` has what some modes take for parameters that a command was not given. Raises `BadRequest` for an
    unknown mode, and for what the mode refuses: `UnknownParameter` for a name that it does not read.
    """
    mode = _mode_in(parameters, default_mode)
    if mode not in MODES:
        raise BadRequest(f"Unknown mode {mode[:50]!r}. `mode` must be one of: {', '.join(MODES)}.")
    rules = selection_rules(mode)
    named = {name: variable for name, variable in rules.environment if name not in parameters}
    found = {name: [environment[each]] for name, each in named.items() if environment and each in environment}
    try:
        return rules.read(mode, {**parameters, **found})
    except UnknownName as error:
        raise UnknownParameter(str(error)) from error
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _mode_in(parameters: Parameters, default_mode: str) -> str:
    """The mode that `mode` names, else `ui`: unless the server's own mode has another meaning for that."""
    named = (parameters.get("mode") or [""])[-1]
    if named:
        return normalised_mode(named)
    ui = (parameters.get("ui") or [""])[-1]
    reads_ui = default_mode in MODES and selection_rules(default_mode).reads_ui
    return default_mode if reads_ui or not ui else normalised_mode(ui)
