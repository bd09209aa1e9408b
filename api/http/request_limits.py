"""Refuses the requests of a caller beyond its limits, before their bodies are read."""

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.api.access.limits.caller_limits import CallerLimits, Slot
from outlast.api.access.principal import Principal
from outlast.api.errors import TooManyRequests
from outlast.api.http.credentials_first import PRINCIPAL_STATE
from outlast.api.http.event_stream import IN_ROOM_STATE
from outlast.api.http.problems import error_response

_STREAMS = ("/events", "/rows", "/results", "/export", "/mcp")
"""How the paths end of what may stay open for as long as a task goes on, or its client reads."""
_DOWNLOADS = "/v1/outputs/"


class RequestLimits:
    """ASGI middleware behind `Entrance`; responds 429, and tells on every answer what is left."""

    def __init__(self, app: ASGIApp, *, limits: CallerLimits) -> None:
        """Pass the requests that `limits` allows to `app`."""
        self._app = app
        self._limits = limits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        principal: Principal | None = scope.get(PRINCIPAL_STATE)
        if principal is None:
            await self._app(scope, receive, send)
            return
        caller_id = principal.caller.id
        room = self._limits.unread.room_of(caller_id)

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(self._limits.headers(caller_id))
            with room.counted(0 if IN_ROOM_STATE in scope else len(message.get("body", b""))):
                await send(message)

        try:
            self._limits.take_request(caller_id)
            held = self._limits.slot(caller_id, _slot_of(scope))
            held.__enter__()
        except TooManyRequests as error:
            await error_response(scope["path"], error)(scope, receive, counted)
            return
        try:
            await self._app(scope, receive, counted)
        finally:
            held.__exit__(None, None, None)


def _slot_of(scope: Scope) -> Slot:
    """What the request holds until it is answered: a stream of its own, or a wait.

    Decided by the request, so that one which is refused has done nothing. A POST that is answered with a stream waits
    for its result, so it counts as waiting.
    """
    path: str = scope["path"].rstrip("/")
    is_stream = path.endswith(_STREAMS) or (path.startswith(_DOWNLOADS) and not path.endswith("/info"))
    return "open_streams" if scope["method"] == "GET" and is_stream else "waiting_requests"
