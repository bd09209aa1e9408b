"""One HTTP exchange: a request, and its response while it is sent."""

import logging
import secrets
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext

from starlette.datastructures import Headers, MutableHeaders
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.api.access.limits.caller_limits import CallerLimits, CallerRoom, leave_body_slot
from outlast.api.access.limits.rate_limits import address_of
from outlast.api.audit.records import REQUEST_ID_HEADER, Origin, set_origin
from outlast.api.errors import ApiError, CredentialEnded
from outlast.api.http.client_connections import connection_of
from outlast.api.http.event_stream import IN_ROOM_STATE, error_frame
from outlast.api.http.problems import defect_response, error_response
from outlast.api.metrics import BROKEN_ANSWERS, ENDED_RESPONSES, REQUEST_SECONDS, REQUESTS

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
_COUNTED_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})
_UNKNOWN_ROUTE = "(none)"
_OUTCOME_UNKNOWN = " The request was being answered; whether it had an effect is not known."

log = logging.getLogger("outlast.api")


class Exchange:
    """A request with its own id (`X-Request-Id`; a client's is ignored), and the state of its response.

    Adds the headers of the response, counts it by route, and ends it when it cannot be completed.
    """

    def __init__(self, scope: Scope, receive: Receive, send: Send, default_headers: Mapping[str, str]) -> None:
        """`default_headers` are added to a response that does not set them."""
        self.scope = scope
        self.receive = receive
        self.headers = Headers(scope=scope)
        self.path: str = scope["path"]
        self.method: str = scope["method"]
        self.closes_connection = False
        """The response is the last one of its connection."""
        self.cors: CORSMiddleware | None = None
        """Lets the page that sent the request read the response."""
        self._send = send
        self._default_headers = default_headers
        self._origin = Origin(_entry_point_of(self.path), address_of(scope), secrets.token_hex(8))
        self._limits: tuple[CallerLimits, str] | None = None
        self._room: CallerRoom | None = None
        self._media_type: str | None = None
        """Of the response; None until it begins."""
        self._is_sending = False
        self._is_complete = False
        self._counted_method = self.method if self.method in _COUNTED_METHODS else "other"
        self._began = time.perf_counter()
        self._broken_by = "disconnected"
        set_origin(self._origin)

    @property
    def address(self) -> str:
        """The address of the client."""
        return address_of(self.scope)

    @property
    def is_safe(self) -> bool:
        """The request has a method that changes nothing (RFC 9110, section 9.2.1)."""
        return self.method in SAFE_METHODS

    def limit(self, limits: CallerLimits, caller_id: str) -> None:
        """Put what is left of the caller's limits on the response, and count what its client does not read."""
        self._limits = limits, caller_id
        self._room = limits.unread.room_of(caller_id)

    async def answer(self, app: ASGIApp) -> None:
        """Have `app`, which may be a response, answer the request."""
        await app(self.scope, self.receive, self.send)

    async def refuse(self, error: ApiError) -> None:
        """Answer with the problem document of `error`."""
        await self.answer(error_response(self.path, error))

    async def send(self, message: Message) -> None:
        """Send a part of the response."""
        begins = message["type"] == "http.response.start"
        if begins:
            self._begin(message)
        self._is_sending = True
        with self._unread(message):
            if begins and self.cors is not None:
                await self.cors.send(message, self._send, self.headers)
            else:
                await self._send(message)
        self._is_sending = False
        self._is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

    async def end(self, error: CredentialEnded) -> None:
        """Give `error` as the reason why the response ends early, if its media type has room for one; or cut it off."""
        if self._is_complete:
            return
        ENDED_RESPONSES.labels("credential").inc()
        if self._media_type is None:
            await self.refuse(error if self.is_safe else CredentialEnded(f"{error}{_OUTCOME_UNKNOWN}"))
            return
        connection = connection_of(self.scope)
        if self._media_type.startswith("text/event-stream") and not self._is_sending and not connection.is_full:
            await self.send({"type": "http.response.body", "body": error_frame(error).encode(), "more_body": False})
        else:
            await connection.cut()

    async def fail(self, error: Exception) -> bool:
        """Answer 500 and return True; return False if the response has begun.

        Starlette raises `error` again in both cases: uvicorn then closes the connection, and the client's next
        request over it fails.
        """
        if self._media_type is not None:
            self._broken_by = "error"
            return False
        log.error("%s %s failed", self.method, self.path, exc_info=error)
        await self.answer(defect_response(self.path))
        return True

    def finish(self) -> None:
        """Count the response if it was not sent to its end."""
        if not self._is_complete:
            BROKEN_ANSWERS.labels(self._counted_method, self._route, self._broken_by).inc()

    def _begin(self, message: Message) -> None:
        leave_body_slot()
        headers = MutableHeaders(scope=message)
        self._media_type = headers.get("content-type", "")
        for name, value in self._default_headers.items():
            headers.setdefault(name, value)
        headers[REQUEST_ID_HEADER] = self._origin.request_id or ""
        if self._limits is not None:
            limits, caller_id = self._limits
            headers.update(limits.headers(caller_id))
        if self.closes_connection:
            headers["Connection"] = "close"
        REQUESTS.labels(self._counted_method, self._route, str(message["status"])).inc()
        REQUEST_SECONDS.labels(self._counted_method, self._route).observe(time.perf_counter() - self._began)

    def _unread(self, message: Message) -> AbstractContextManager[None]:
        if self._room is None or IN_ROOM_STATE in self.scope:
            return nullcontext()
        return self._room.counted(len(message.get("body", b"")))

    @property
    def _route(self) -> str:
        """The pattern of the route, never the path: that has ids."""
        path: object = getattr(self.scope.get("route"), "path", None)
        return path if isinstance(path, str) else _UNKNOWN_ROUTE


def _entry_point_of(path: str) -> str:
    if path == "/mcp":
        return "mcp"
    if path.startswith("/console"):
        return "console"
    return "adapter" if path.startswith("/v1/adapters/") else "rest"
