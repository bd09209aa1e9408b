"""Documents that are the same for everybody: bytes with an ETag, so that none is made twice (RFC 9110, 8.8)."""

import hashlib
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send


class Document:
    """An ASGI application that answers with one document, or with 304 to a client that has it already."""

    def __init__(self, body: bytes, media_type: str, headers: Mapping[str, str] | None = None) -> None:
        """Answer with `body` and `headers`. Without a `Cache-Control` among them, clients revalidate each time."""
        self._body = body
        self._etag = f'"{hashlib.sha256(body).hexdigest()[:32]}"'
        own = {"ETag": self._etag, "Cache-Control": "no-cache", **(headers or {})}
        self._headers = [(name.lower().encode(), value.encode()) for name, value in own.items()]
        self._whole = [
            *self._headers,
            (b"content-type", media_type.encode()),
            (b"content-length", str(len(body)).encode()),
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one GET or HEAD request."""
        del receive
        if self._is_known(Headers(scope=scope)):
            await send({"type": "http.response.start", "status": 304, "headers": list(self._headers)})
            await send({"type": "http.response.body"})
            return
        await send({"type": "http.response.start", "status": 200, "headers": list(self._whole)})
        body = b"" if scope["method"] == "HEAD" else self._body
        await send({"type": "http.response.body", "body": body})

    def _is_known(self, headers: Headers) -> bool:
        """Return True if the client names this version (RFC 9110, section 13.1.2: weak comparison)."""
        named = (tag.strip().removeprefix("W/") for tag in headers.get("if-none-match", "").split(","))
        return any(tag in (self._etag, "*") for tag in named)


class _Endpoint:
    """An application that a route takes for one: of a function it would make a handler of requests."""

    def __init__(self, path: str, app: ASGIApp) -> None:
        self.path = path
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = self  # metrics count by its path, as FastAPI does it for its own routes
        await self._app(scope, receive, send)


def route_of(path: str, app: ASGIApp) -> Route:
    """The route for GET and HEAD that `app` serves. The API's own document does not have it."""
    return Route(path, endpoint=_Endpoint(path, app), methods=["GET"], include_in_schema=False)
