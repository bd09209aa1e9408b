"""`/mcp` of the API process: streamable HTTP for both protocol versions, with the credentials of the REST API."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from typing import Any, cast

from fastapi import FastAPI
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken
from mcp.server.transport_security import TransportSecuritySettings
from mcp_types import JSONRPCRequest
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.activities.contracts import Caller
from outlast.api.access.principal import Principal
from outlast.api.audit.records import current_origin
from outlast.api.errors import ApiError, BadRequest
from outlast.api.http.dependencies import PRINCIPAL_STATE, resolved_principal
from outlast.api.http.problems import error_response
from outlast.api.http.request_body import again
from outlast.api.mcp.connections import OpenExchanges, Sender, parameters_of, selection_from, session_place
from outlast.api.mcp.posted_message import PostedMessage, check_scopes, posted_message, scopes_of_message
from outlast.api.mcp.protocol.versions import SESSION_HEADER, is_handshake_era, session_of
from outlast.api.mcp.server import McpServer
from outlast.api.mcp.tool_lists import METHOD as TOOL_LIST
from outlast.api.mcp.tool_lists import with_tool_list
from outlast.api.mcp.widgets import widget_resources
from outlast.api.metrics import LIMITED
from outlast.api.services import Services

_PATH = "/mcp"
_NOT_FOUND = 404
_MAX_QUERY_CHARS = 8_192
_NO_MESSAGE: Message = {
    "type": "http.request",
    "body": b'{"jsonrpc":"2.0","method":"notifications/outlast/dropped"}',
    "more_body": False,
}


class Authenticated:
    """Authentication of each request before the MCP server sees it, and authorization of messages over a session."""

    def __init__(self, app: ASGIApp, services: Services, exchanges: OpenExchanges) -> None:
        self._app = app
        self._exchanges = exchanges
        self._services = services
        self._default_mode = services.settings.mode

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request. Responds 400, 401, 403, 429 or 503 as the REST API does."""
        request = Request(scope)
        posted = PostedMessage()
        try:
            principal = await resolved_principal(scope, self._services.callers)
            self._check_size(principal.caller, request)
            if request.method == "POST":
                posted, receive = await posted_message(receive)
                check_scopes(principal, posted)
            receive, exchange = self._admitted(principal, request, posted, receive)
        except ApiError as error:
            await error_response(request.url.path, error)(scope, receive, send)
            return
        refusal = posted.refusal(is_handshake_era=is_handshake_era(request))
        if refusal is not None:
            await refusal(scope, receive, send)
            return
        scope[PRINCIPAL_STATE] = principal
        # The SDK allows a session to be used only with the credential that opened it.
        scope["user"] = AuthenticatedUser(
            AccessToken(token="", client_id=principal.caller.id, subject=principal.credential, scopes=[])
        )
        with exchange:
            if posted.method == "initialize" and session_of(request) is not None:
                await self._initialize(principal, scope, receive, send)
            elif request.method == "POST" and is_handshake_era(request) and session_of(request) is None:
                await self._open(principal, scope, receive, send)
            else:
                send = with_tool_list(scope, send) if posted.method == TOOL_LIST else send
                await self._app(scope, receive, self._noting_session(request, principal.caller.id, send))

    def _admitted(
        self, principal: Principal, request: Request, posted: PostedMessage, receive: Receive
    ) -> tuple[Receive, AbstractContextManager[None]]:
        """Return the request and its open exchange, if the principal may send it over its session.

        Raises `ForbiddenScope`.
        """
        session = session_of(request)
        if session is None:
            return receive, nullcontext()
        place = session_place(principal, session)
        if request.method == "DELETE":
            self._exchanges.require_end(place, principal)
        elif request.method == "GET":
            principal.require("read", "call")
        message = posted.message
        if isinstance(message, JSONRPCRequest):
            # A message that refers to it may come before its handler begins.
            scopes = scopes_of_message(message.method, message.params)
            return receive, self._exchanges.request(place, message.id, scopes)
        if message is None or self._exchanges.admit(place, Sender(principal, current_origin()), message):
            return receive, nullcontext()
        # It refers to nothing open. The SDK, which knows the sessions, answers without seeing it.
        return again(_NO_MESSAGE, receive), nullcontext()

    async def _open(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request that may open a session, if its caller may have another one."""
        caller_id = principal.caller.id
        try:
            with self._services.mcp_sessions.opening(caller_id) as opened:
                noting = self._noting_session(Request(scope), caller_id, send, opened)
                await self._app(scope, receive, noting)
        except ApiError as error:
            await error_response(scope["path"], error)(scope, receive, send)

    async def _initialize(self, principal: Principal, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a handshake with the id of a session; if that has ended, open another.

        Clients send the id of their last session when they reconnect, for example after a restart of the server.
        """
        first = await receive()
        has_ended = False

        async def unless_ended(message: Message) -> None:
            nonlocal has_ended
            has_ended = has_ended or (message["type"] == "http.response.start" and message["status"] == _NOT_FOUND)
            if not has_ended:
                await noting(message)

        noting = self._noting_session(Request(scope), principal.caller.id, send)
        await self._app(scope, again(first, receive), unless_ended)
        if not has_ended:
            return
        headers = [(name, value) for name, value in scope["headers"] if name != SESSION_HEADER.encode()]
        await self._open(principal, {**scope, "headers": headers}, again(first, receive), send)

    def _noting_session(
        self, request: Request, caller_id: str, send: Send, opened: Callable[[], None] = lambda: None
    ) -> Send:
        """Wrap `send` to record whether the answer opens, uses or ends a session, and to call `opened` then."""
        sessions = self._services.mcp_sessions

        async def noting(message: Message) -> None:
            if message["type"] == "http.response.start":
                session = session_of(request) or Headers(raw=message["headers"]).get(SESSION_HEADER)
                is_there = message["status"] < 300 and request.method != "DELETE"
                if session is not None and is_there:
                    sessions.use(caller_id, session)
                elif session is not None and (message["status"] == _NOT_FOUND or request.method == "DELETE"):
                    sessions.end(caller_id, session)
                opened()
            await send(message)

        return noting

    def _check_size(self, caller: Caller, request: Request) -> None:
        """Raise `BadRequest` for a long URL, or too many names: connections keep them, and each Actor is looked up."""
        if len(request.url.query) > _MAX_QUERY_CHARS:
            raise BadRequest(f"The query of the URL has more than {_MAX_QUERY_CHARS} characters. Name fewer tools.")
        selection = selection_from(parameters_of(request), default_mode=self._default_mode)
        most = self._services.policy.of(caller.id).limits.actors_per_connection
        names = len(selection.actors) + len(selection.selectors or ())
        if names > most:
            LIMITED.labels("actors_per_connection").inc()
            raise BadRequest(
                f"The URL names {names} tools and Actors; you may name {most} (`actors_per_connection` in the "
                "operator's policy). Name fewer, and add others with the tool add-actor."
            )


def install_mcp(app: FastAPI, services: Services) -> None:
    """Serve MCP at `/mcp` of `app`, for as long as `app` runs."""
    mcp, settings = McpServer(services, widgets=widget_resources()), services.settings
    inner = mcp.server.streamable_http_app(
        streamable_http_path=_PATH,
        max_request_body_size=settings.max_body_bytes,
        session_idle_timeout=settings.mcp_session_idle_seconds,
        # The entrance has checked Host and Origin, for all routes alike.
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    endpoint = Authenticated(cast(Route, inner.routes[0]).app, services, mcp.exchanges)
    app.router.routes.append(Route(_PATH, endpoint=endpoint, include_in_schema=False))
    outer = app.router.lifespan_context

    @asynccontextmanager
    async def lifespan(running: Any) -> AsyncGenerator[Any]:
        async with outer(running) as state, mcp.server.session_manager.run():
            yield state

    app.router.lifespan_context = lifespan
