"""The state of one client connection: its mode and selection of tools, its caller, and the Actors it has added.

Over HTTP the URL holds mode and selection (`/mcp?ui=openai&tools=docs,apify/rag-web-browser`). Added Actors belong to
the session in 2025-11-25. In 2026-07-28, which has no sessions, they belong to the caller and the URL.
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from cachetools import LRUCache
from starlette.requests import Request

from outlast.activities.contracts import Caller
from outlast.api.access.principal import Principal
from outlast.api.audit.origin import Origin, set_origin
from outlast.api.errors import BadRequest
from outlast.api.http.credentials_first import PRINCIPAL_STATE
from outlast.api.mcp.protocol.versions import Context
from outlast.api.mcp.subscriptions.tool_list_changes import ToolListChanges
from outlast.api.services import Services
from outlast.workflows.tools.core.payments import SCHEMES
from outlast.workflows.tools.loader import Selection, ToolSet, normalised_mode
from outlast.workflows.tools.registry import MODES

_MAX_CONNECTIONS = 10_000
_TOOLS_TTL_SECONDS = 300

ConnectionKey = tuple[str, ...]
"""What tells a connection from others: its caller, and its session or selection."""


@dataclass
class Connection:
    """What the server remembers of one connection."""

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
        self, services: Services, *, selection: Selection | None = None, principal: Principal | None = None
    ) -> None:
        """`selection` and `principal` are those of the only connection over stdio."""
        self._services = services
        self._selection = selection or Selection(mode=services.settings.mode)
        self._principal = principal
        self._connections: LRUCache[ConnectionKey, Connection] = LRUCache(_MAX_CONNECTIONS)

    async def client(self, ctx: Context) -> Client:
        """The client that sent the request."""
        request = http_request(ctx)
        if request is None:
            set_origin(Origin("mcp-stdio"))
            principal = self._principal or await self._services.callers.resolve(None)
            return Client(principal, self._connection(("stdio",), self._selection))
        principal: Principal = request.scope[PRINCIPAL_STATE]
        caller_id = principal.caller.id
        selection = self.selection_of(request)
        session = request.headers.get("mcp-session-id")
        # Not one text: callers' ids and the header may have any character.
        key = (caller_id, "session", session) if session else (caller_id, "query", request.url.query)
        return Client(principal, self._connection(key, selection))

    def selection_of(self, request: Request) -> Selection:
        """The selection in the request's URL. Raises `BadRequest` for an unknown mode or payment."""
        return selection_from(request.query_params, default_mode=self._services.settings.mode)

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
        added = tuple(client.connection.added_actors)
        with_added = Selection(
            mode=selection.mode,
            selectors=selection.selectors,
            actors=(*selection.actors, *added),
            payment=selection.payment,
        )
        return await self._services.catalogue.load(with_added, client.caller)

    def _connection(self, key: ConnectionKey, selection: Selection) -> Connection:
        connection = self._connections.get(key)
        if connection is None:
            connection = self._connections[key] = Connection(key, selection)
        return connection


def http_request(ctx: Context) -> Request | None:
    """The HTTP request that carried the message; None over stdio."""
    request: object = ctx.request
    return cast(Request, request) if isinstance(request, Request) else None


def selection_from(query: Mapping[str, str], *, default_mode: str) -> Selection:
    """The selection of a URL's query, or of command-line options: `ui`, `tools`, `actors`, `payment`.

    Raises `BadRequest` for an unknown mode or payment.
    """
    mode = normalised_mode(query.get("ui") or default_mode)
    if mode not in MODES:
        raise BadRequest(f"Unknown mode {mode[:50]!r}. `ui` must be one of: {', '.join(MODES)}.")
    payment = query.get("payment")
    if payment and payment not in SCHEMES:
        raise BadRequest(f"Unknown payment {payment[:50]!r}. `payment` must be one of: {', '.join(SCHEMES)}.")
    return Selection(
        mode=mode,
        selectors=_split_names(query.get("tools")),
        actors=_split_names(query.get("actors")) or (),
        payment=SCHEMES[payment] if payment else None,
    )


def _split_names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",") if name.strip())
