"""Where a request comes from, for the records that are written while it is served."""

import secrets
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from outlast.api.access.limits.rate_limits import address_of

REQUEST_ID_HEADER = "X-Request-Id"


@dataclass(frozen=True)
class Origin:
    """The entry point, the address of the client and the id of the request."""

    door: str = "library"
    remote: str | None = None
    request_id: str | None = None
    key: str | None = None
    """Id of the API key that the request came with, if it is one of the policy's."""


_origin = ContextVar[Origin | None]("outlast_origin", default=None)


def current_origin() -> Origin:
    """The origin of the request that is being served."""
    return _origin.get() or Origin()


def set_origin(origin: Origin) -> None:
    """Say where the request comes from that this task serves from now on."""
    _origin.set(origin)


def set_key(key: str | None) -> None:
    """Say which API key the request came with that this task serves."""
    _origin.set(replace(current_origin(), key=key))


@contextmanager
def served_from(origin: Origin) -> Generator[None]:
    """Say that what the block does comes from another request than the one that this task serves."""
    token = _origin.set(origin)
    try:
        yield
    finally:
        _origin.reset(token)


class RequestOrigins:
    """ASGI middleware that gives each request an id, answered as `X-Request-Id`. A client's own id is ignored."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        origin = Origin(_door_of(scope["path"]), address_of(scope), secrets.token_hex(8))
        set_origin(origin)

        async def with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[REQUEST_ID_HEADER] = origin.request_id or ""
            await send(message)

        await self._app(scope, receive, with_id)


def _door_of(path: str) -> str:
    if path == "/mcp":
        return "mcp"
    return "adapter" if path.startswith("/v1/adapters/") else "rest"
