"""What one client connection is: its mode and selectors, its caller, and the Actors it has added.

Over HTTP, mode and selectors stand in the URL (`/mcp?ui=openai&tools=docs,apify/rag-web-browser`). Added Actors belong
to the session in the older era, and to caller and URL in the newer one, which has no sessions.
"""

import time
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from pydantic import SecretStr
from starlette.requests import Request

from outlast.activities.contracts import Caller
from outlast.api.errors import BadRequest
from outlast.api.mcp.protocol.eras import Context
from outlast.api.mcp.subscriptions.changes import Changes
from outlast.api.services import Services
from outlast.workflows.tools.core.payments import SCHEMES
from outlast.workflows.tools.loader import Selection, ToolSet, normalised_mode
from outlast.workflows.tools.registry import MODES

CALLER_STATE = "outlast_caller"
_MAX_CONNECTIONS = 10_000
_TOOLS_SECONDS = 300


@dataclass
class Connection:
    """One client's view of the server."""

    key: str
    selection: Selection
    added_actors: list[str] = field(default_factory=list[str])
    tools: ToolSet | None = None
    loaded_at: float = 0.0
    log_level: str | None = None
    """What `logging/setLevel` has asked for (2025-11-25)."""
    changes: Changes = field(default_factory=Changes)


@dataclass(frozen=True)
class Client:
    """Who sends a request, over which connection."""

    caller: Caller
    connection: Connection

    @property
    def mode(self) -> str:
        """The connection's mode."""
        return self.connection.selection.mode


class Connections:
    """Remembers connections; the oldest are forgotten, and with them only the Actors they had added."""

    def __init__(self, services: Services, *, selection: Selection | None = None, caller: Caller | None = None) -> None:
        """`selection` and `caller` are those of a connection without HTTP requests (stdio)."""
        self._services = services
        self._selection = selection or Selection(mode=services.settings.mode)
        self._caller = caller
        self._known: OrderedDict[str, Connection] = OrderedDict()

    async def client(self, ctx: Context) -> Client:
        """The client behind a request."""
        request = http_request(ctx)
        if request is None:
            caller = self._caller or await self._services.callers.resolve(None)
            return Client(caller, self._connection("stdio", self._selection))
        caller = request.scope[CALLER_STATE]
        selection = self.selection_of(request)
        session = request.headers.get("mcp-session-id")
        key = f"{caller.id}|{session}" if session else f"{caller.id}|{request.url.query}"
        return Client(caller, self._connection(key, selection))

    def selection_of(self, request: Request) -> Selection:
        """What the request's URL asks for. Raises `BadRequest` for a mode or a payment that does not exist."""
        return selection_from(request.query_params, default_mode=self._services.settings.mode)

    async def tools(self, client: Client) -> ToolSet:
        """The tools that the connection offers, its added Actors among them."""
        connection = client.connection
        fresh = time.monotonic() - connection.loaded_at < _TOOLS_SECONDS
        if connection.tools is None or not fresh:
            connection.tools = await self._load(client)
            connection.loaded_at = time.monotonic()
        return connection.tools

    async def add_actor(self, client: Client, actor: str) -> bool:
        """Offer `actor` from now on. False when it is offered already or cannot be loaded."""
        tools = await self.tools(client)
        definitions = await self._services.catalogue.actor_tools(client.mode, actor, client.caller)
        if all(definition.name in tools.tools for definition in definitions):
            return False
        client.connection.added_actors.append(actor)
        client.connection.tools = None
        return True

    async def _load(self, client: Client) -> ToolSet:
        selection = client.connection.selection
        added = tuple(client.connection.added_actors)
        chosen = Selection(
            mode=selection.mode,
            selectors=selection.selectors,
            actors=(*selection.actors, *added),
            payment=selection.payment,
        )
        return await self._services.catalogue.load(chosen, client.caller)

    def _connection(self, key: str, selection: Selection) -> Connection:
        connection = self._known.pop(key, None) or Connection(key, selection)
        self._known[key] = connection
        if len(self._known) > _MAX_CONNECTIONS:
            self._known.popitem(last=False)
        return connection


def http_request(ctx: Context) -> Request | None:
    """The HTTP request that carried a message; None over stdio."""
    request: object = ctx.request
    return cast(Request, request) if isinstance(request, Request) else None


def selection_from(query: Mapping[str, str], *, default_mode: str) -> Selection:
    """What a URL's query, or a command line, asks for: `ui`, `tools`, `actors`, `payment`. Raises `BadRequest`."""
    mode = normalised_mode(query.get("ui") or default_mode)
    if mode not in MODES:
        raise BadRequest(f"There is no mode {mode[:50]!r}; ui takes one of: {', '.join(MODES)}.")
    payment = query.get("payment")
    if payment and payment not in SCHEMES:
        raise BadRequest(f"There is no payment {payment[:50]!r}; payment takes one of: {', '.join(SCHEMES)}.")
    return Selection(
        mode=mode,
        selectors=_names(query.get("tools")),
        actors=_names(query.get("actors")) or (),
        payment=SCHEMES[payment] if payment else None,
    )


def split_payment(
    arguments: Mapping[str, object], property_name: str | None
) -> tuple[dict[str, object], SecretStr | None]:
    """The arguments without the payment, and the payment: it must enter no history."""
    rest = dict(arguments)
    payment = rest.pop(property_name, None) if property_name else None
    return rest, SecretStr(payment) if isinstance(payment, str) and payment else None


def _names(text: str | None) -> tuple[str, ...] | None:
    if text is None:
        return None
    return tuple(name.strip() for name in text.split(",") if name.strip())
