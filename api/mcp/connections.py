"""Connections of MCP clients (mode, selection of tools, caller, added Actors), and their open requests.

Open requests, in both directions, determine which later messages of a client may refer to them.
"""

import asyncio
import secrets
import time
from collections import defaultdict
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import cast

from cachetools import LRUCache
from mcp.shared.dispatcher import coerce_request_id
from mcp.shared.jsonrpc_dispatcher import cancelled_request_id_from_params, progress_token_from_params
from mcp_types import JSONRPCError, JSONRPCMessage, JSONRPCNotification, JSONRPCResponse, RequestId
from pydantic import SecretStr
from starlette.requests import Request

from outlast.activities.contracts import Caller
from outlast.api.access.policy.contracts import Scope
from outlast.api.access.principal import Principal
from outlast.api.audit.records import Origin, set_origin
from outlast.api.catalog.discovery import with_discovery
from outlast.api.catalog.servers import ListKind, ListKinds
from outlast.api.errors import BadRequest, IssuerUnavailable, KeyChecksBusy, PlatformUnavailable, UnknownParameter
from outlast.api.http.dependencies import PRINCIPAL_STATE
from outlast.api.mcp.protocol.versions import Context, client_facts, session_of
from outlast.api.services import Services
from outlast.workflows.tools.framework.selection import Parameters, Selection, UnknownName, without_tags
from outlast.workflows.tools.registry import MODES, ToolSet, base_tools, normalised_mode, selection_rules

PAYMENT_SIGNATURE_HEADER = "payment-signature"
_MAX_CONNECTIONS = 10_000
_TOOLS_TTL_SECONDS = 300
ConnectionKey = tuple[str, ...]
"""Identity of a connection: its caller, and its session or selection."""
Place = tuple[str, ...]
"""The connection of a message, for one credential."""
STDIO: Place = ("stdio",)
_LARGEST_ID = 2**53 - 1
"""The largest integer that every JSON parser preserves."""
_CANCELLED, _PROGRESS = "notifications/cancelled", "notifications/progress"


class ListChanges:
    """Changes of lists that one listener has not taken. Changes in quick succession count as one."""

    def __init__(self) -> None:
        self._kinds = set[ListKind]()
        self._any = asyncio.Event()

    def add(self, kinds: ListKinds) -> None:
        """Note changed lists."""
        self._kinds |= kinds
        self._any.set()

    async def take(self) -> list[ListKind]:
        """Wait for changes, and return the changed lists."""
        await self._any.wait()
        self._any.clear()
        taken, self._kinds = sorted(self._kinds), set[ListKind]()
        return taken


@dataclass
class Connection:
    """State of one connection."""

    key: ConnectionKey
    selection: Selection
    added_actors: list[str] = field(default_factory=list[str])
    tools: ToolSet | None = None
    tools_loaded_at: float = 0.0
    """`time.monotonic()`, in seconds."""
    tools_revision: int = 0
    """`ServerTools.revision` at that time."""
    session: str | None = None
    """The client's session, to which its sessions with MCP servers belong; None without one (2026-07-28 over HTTP)."""
    log_level: str | None = None
    """The level of the last `logging/setLevel` (2025-11-25)."""
    list_listeners: set[ListChanges] = field(default_factory=set[ListChanges])
    """Streams and sessions that wait for changes of lists."""

    @contextmanager
    def listening(self) -> Generator[ListChanges]:
        """Yield the changes of lists from now on."""
        changes = ListChanges()
        self.list_listeners.add(changes)
        try:
            yield changes
        finally:
            self.list_listeners.discard(changes)

    def announce(self, kinds: ListKinds) -> None:
        """Notify the listeners that these lists have changed."""
        for changes in self.list_listeners:
            changes.add(kinds)


@dataclass(frozen=True)
class Client:
    """The sender of a request: who it is, and its connection."""

    principal: Principal
    connection: Connection

    @property
    def caller(self) -> Caller:
        """The caller whose tasks it can access."""
        return self.principal.caller

    @property
    def mode(self) -> str:
        """The connection's mode."""
        return self.connection.selection.mode


class Connections:
    """The 10,000 connections that were used last. A forgotten connection loses only the Actors it has added."""

    def __init__(
        self, services: Services, *, selection: Selection | None = None, token: SecretStr | None = None
    ) -> None:
        """`selection` and `token` are those of the only connection over stdio."""
        self._services = services
        self._selection = selection or Selection(mode=services.settings.mode)
        self._token = token
        self._process = secrets.token_hex(16)
        """The session of the only connection over stdio."""
        self._last_known: Principal | None = None
        self._connections: LRUCache[ConnectionKey, Connection] = LRUCache(_MAX_CONNECTIONS)
        if services.server_tools is not None:
            services.server_tools.on_change(self._announce_change)

    @property
    def may_change(self) -> bool:
        """True if the lists of connections may change by themselves, because there are MCP servers."""
        return self._services.server_tools is not None

    async def client(self, ctx: Context) -> Client:
        """Return the client that sent the request. Raises what `principal` raises."""
        request, principal = http_request(ctx), await self.principal(ctx)
        if request is None:
            set_origin(Origin("mcp-stdio", key=principal.key_id))
            return Client(principal, self._connection(("stdio",), self._selection, ctx, self._process))
        caller_id = principal.caller.id
        selection = selection_from(parameters_of(request), default_mode=self._services.settings.mode)
        session = session_of(request)
        # Not one text: callers' ids and the header may have any character.
        key = (caller_id, "session", session) if session else (caller_id, "query", request.url.query)
        return Client(principal, self._connection(key, selection, ctx, session))

    async def principal(self, ctx: Context) -> Principal:
        """Return the principal that sent the message. Raises `Unauthenticated` as `local_principal` does."""
        request = http_request(ctx)
        return await self.local_principal() if request is None else request.scope[PRINCIPAL_STATE]

    async def local_principal(self) -> Principal:
        """Return the caller over stdio with its current credential. Raises `Unauthenticated` when it is no longer
        valid.

        While the credential cannot be checked, the last result holds.
        """
        try:
            self._last_known = await self._services.callers.resolve(self._token)
        except (PlatformUnavailable, IssuerUnavailable, KeyChecksBusy):
            if self._last_known is None:
                raise
        return self._last_known

    async def tools(self, client: Client) -> ToolSet:
        """Return the tools of the connection, including those of its added Actors."""
        connection, servers = client.connection, self._services.server_tools
        revision = servers.revision if servers is not None else 0
        is_fresh = time.monotonic() - connection.tools_loaded_at < _TOOLS_TTL_SECONDS
        if connection.tools is None or not is_fresh or connection.tools_revision != revision:
            connection.tools = await self._load_tools(client)
            connection.tools_loaded_at, connection.tools_revision = time.monotonic(), revision
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

    def _announce_change(self, kinds: ListKinds) -> None:
        """Notify the listeners of all connections that lists of MCP servers have changed."""
        for connection in list(self._connections.values()):
            connection.announce(kinds)

    async def _load_tools(self, client: Client) -> ToolSet:
        selection = client.connection.selection
        if selection.payment is not None and selection.payment.needs_terms:
            payment = selection.payment.with_terms(await self._services.payment_terms.x402())
            selection = client.connection.selection = replace(selection, payment=payment)
        added = tuple(client.connection.added_actors)
        loaded = await self._services.catalogue.load(replace(selection, added_actors=added), client.caller)
        return with_discovery(loaded, self._services.settings.max_listed_tools)

    def _connection(self, key: ConnectionKey, selection: Selection, ctx: Context, session: str | None) -> Connection:
        if selection_rules(selection.mode).shows_clients:
            # Two clients of one caller and URL may have different lists.
            facts = client_facts(ctx)
            selection = replace(selection, client=facts)
            key = (*key, facts.name, str(facts.is_modern), str(facts.shows_apps))
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = Connection(key, selection, session=session)
        return connection


class ActorNotLoaded(Exception):
    """The Actor does not exist for this caller, or its tools cannot be read."""


def http_request(ctx: Context) -> Request | None:
    """Return the HTTP request that carried the message; None over stdio."""
    request: object = ctx.request
    return cast(Request, request) if isinstance(request, Request) else None


def payment_signature(ctx: Context) -> str | None:
    """Return the HTTP header with a payment (x402), if any."""
    request = http_request(ctx)
    return request.headers.get(PAYMENT_SIGNATURE_HEADER) if request is not None else None


def parameters_of(request: Request) -> Parameters:
    """Return the parameters of the request's URL."""
    query = request.query_params
    return {name: query.getlist(name) for name in query}


def selection_from(
    parameters: Parameters, *, default_mode: str, environment: Mapping[str, str] | None = None
) -> Selection:
    """Read the selection in a URL's parameters or in command-line options.

    `environment` has defaults for parameters of some modes. Raises `BadRequest` for an unknown mode or tag, and for
    invalid values, and `UnknownParameter` for a name that the mode does not have.
    """
    mode = _mode_in(parameters, default_mode)
    if mode not in MODES:
        raise BadRequest(f"Unknown mode {mode[:50]!r}. `mode` must be one of: {', '.join(MODES)}.")
    rules = selection_rules(mode)
    named = {name: variable for name, variable in rules.environment if name not in parameters}
    found = {name: [environment[each]] for name, each in named.items() if environment and each in environment}
    try:
        selection = rules.read(mode, {**parameters, **found})
        if selection.selectors is None:
            return selection
        return replace(selection, selectors=without_tags(selection.selectors, base_tools(mode).tools.values()))
    except UnknownName as error:
        raise UnknownParameter(str(error)) from error
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _mode_in(parameters: Parameters, default_mode: str) -> str:
    """Return the mode that `mode` names, else `ui`: unless the server's own mode has another meaning for that."""
    named = (parameters.get("mode") or [""])[-1]
    if named:
        return normalised_mode(named)
    ui = (parameters.get("ui") or [""])[-1]
    reads_ui = default_mode in MODES and selection_rules(default_mode).reads_ui
    return default_mode if reads_ui or not ui else normalised_mode(ui)


@dataclass(frozen=True)
class Sender:
    """The sender of a message, as it was when the message arrived."""

    principal: Principal
    origin: Origin


@dataclass
class Question:
    """A request to the client."""

    scope: Scope
    answered_by: Sender | None = None


class OpenExchanges:
    """The open requests of every connection of this process."""

    def __init__(self) -> None:
        self._connections: defaultdict[Place, _Connection] = defaultdict(_Connection)

    @contextmanager
    def request(self, place: Place | None, request_id: RequestId | None, scopes: tuple[Scope, ...]) -> Generator[None]:
        """Keep a request that needs one of `scopes` open during the block; `place` is None if no message can refer to
        it.
        """
        if place is None or request_id is None:
            yield
            return
        connection, key = self._connections[place], coerce_request_id(request_id)
        # A client may use an id twice at once: a message about it needs what both need.
        connection.requests.setdefault(key, []).append(scopes)
        try:
            yield
        finally:
            connection.requests[key].remove(scopes)
            if not connection.requests[key]:
                del connection.requests[key]
            self._forget_if_idle(place)

    @contextmanager
    def question(self, place: Place, scope: Scope) -> Generator[tuple[int, Question]]:
        """A question to the client is open while the block runs, under an id that cannot be guessed."""
        connection = self._connections[place]
        question_id, question = secrets.randbelow(_LARGEST_ID) + 1, Question(scope)
        connection.questions[question_id] = question
        try:
            yield question_id, question
        finally:
            del connection.questions[question_id]
            self._forget_if_idle(place)

    def admit(self, place: Place, sender: Sender, message: JSONRPCMessage) -> bool:
        """Check that a message refers to something open. Raises `ForbiddenScope` when the sender may not send it."""
        match message:
            case JSONRPCResponse() | JSONRPCError():
                question = self._question_at(place, message.id)
                if question is not None:
                    sender.principal.require(question.scope)
                    question.answered_by = sender
                return question is not None
            case JSONRPCNotification(method=method, params=params) if method == _CANCELLED:
                cancelled = cancelled_request_id_from_params(params)
                found = self._connections.get(place)
                needed = found.requests.get(coerce_request_id(cancelled), []) if found and cancelled is not None else []
                _require_all(sender.principal, needed)
                return bool(needed)
            case JSONRPCNotification(method=method, params=params) if method == _PROGRESS:
                question = self._question_at(place, progress_token_from_params({"_meta": params}))
                if question is not None:
                    sender.principal.require(question.scope)
                return question is not None
            case _:
                return True  # Requests have handlers that check; other notifications refer to no request.

    def require_end(self, place: Place, principal: Principal) -> None:
        """Raise `ForbiddenScope` unless the principal may end all that is open on the connection."""
        found = self._connections.get(place)
        if found is not None:
            _require_all(principal, (scopes for entries in found.requests.values() for scopes in entries))
            _require_all(principal, ((question.scope,) for question in found.questions.values()))

    def _question_at(self, place: Place, question_id: RequestId | None) -> Question | None:
        found = self._connections.get(place)
        if found is None or question_id is None:
            return None
        return found.questions.get(coerce_request_id(question_id))

    def _forget_if_idle(self, place: Place) -> None:
        connection = self._connections[place]
        if not connection.requests and not connection.questions:
            del self._connections[place]


@dataclass
class _Connection:
    requests: dict[RequestId, list[tuple[Scope, ...]]] = field(default_factory=dict[RequestId, list[tuple[Scope, ...]]])
    questions: dict[RequestId, Question] = field(default_factory=dict[RequestId, Question])


def session_place(principal: Principal, session: str) -> Place:
    """A session over HTTP (2025-11-25), as this credential has it: for another one with its id, nothing is open."""
    return (principal.caller.id, principal.credential, session)


def place_of(ctx: Context, principal: Principal) -> Place | None:
    """Return the connection of a request; None if no later message can refer to the request (2026-07-28 over HTTP)."""
    request = http_request(ctx)
    if request is None:
        return STDIO
    session = session_of(request)
    return session_place(principal, session) if session is not None else None


def _require_all(principal: Principal, needed: Iterable[tuple[Scope, ...]]) -> None:
    """Raise `ForbiddenScope` unless the principal has one scope of each entry; an empty entry needs none."""
    for scopes in needed:
        if scopes:
            principal.require(*scopes)
