"""Ends the responses that are still being sent when the credential of their requests ends."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.api.access.principal import Principal
from outlast.api.errors import CredentialEnded
from outlast.api.http.client_connections import connection_of
from outlast.api.http.credentials_first import PRINCIPAL_STATE
from outlast.api.http.event_stream import error_frame
from outlast.api.http.problems import error_response
from outlast.api.metrics import ENDED_RESPONSES

_MCP_GRACE_SECONDS = 0.5
"""How long the MCP server has to answer a request with a JSON-RPC error, before its response is ended from outside."""
_UNKNOWN = " The request was being answered; whether it had an effect is not known."
_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


class BoundResponses:
    """ASGI middleware behind `Entrance`: a response ends with the credential of its request, and says why."""

    def __init__(self, app: ASGIApp) -> None:
        """Bind the responses of `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        principal: Principal | None = scope.get(PRINCIPAL_STATE)
        if principal is None or principal.validity is None:
            await self._app(scope, receive, send)
            return
        response = _Response(scope, receive, send)
        answers_itself = scope["path"] == "/mcp" and scope["method"] == "POST"
        try:
            async with principal.lease(grace_seconds=_MCP_GRACE_SECONDS if answers_itself else 0.0):
                await self._app(scope, receive, response.send)
        except CredentialEnded as error:
            await response.end(error)


class _Response:
    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._scope = scope
        self._receive = receive
        self._send = send
        self._media_type: str | None = None
        """Of the response that has begun."""
        self._is_whole = False
        self._is_sending = False

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._media_type = Headers(raw=message["headers"]).get("content-type", "")
        self._is_sending = True
        await self._send(message)
        self._is_sending = False
        self._is_whole = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def end(self, error: CredentialEnded) -> None:
        """Say why, where the kind of the response can say it; otherwise cut it off."""
        if self._is_whole:
            return
        ENDED_RESPONSES.labels("credential").inc()
        if self._media_type is None:
            changes = self._scope["method"] not in _SAFE
            told = CredentialEnded(f"{error}{_UNKNOWN}") if changes else error
            await error_response(self._scope["path"], told)(self._scope, self._receive, self._send)
            return
        connection = connection_of(self._scope)
        if self._media_type.startswith("text/event-stream") and not self._is_sending and not connection.is_full:
            frame = error_frame(error).encode()
            await self._send({"type": "http.response.body", "body": frame, "more_body": False})
        else:
            await connection.cut()
