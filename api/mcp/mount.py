"""`/mcp` of the API process. It opens once the MCP SDK is loaded, and the process takes other requests before that."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from outlast.api.services import Services

if TYPE_CHECKING:
    from outlast.api.mcp.streamable_http import StreamableHttp

PATH = "/mcp"
Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]

log = logging.getLogger("outlast.mcp")


class McpDoor:
    """Serves MCP. The SDK takes as long to load as all the rest of the API, so a thread loads it beside the start."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._app: ASGIApp | None = None
        self._opened = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request; one of the first half second waits for the SDK."""
        await self._opened.wait()
        if self._app is None:
            raise RuntimeError("The MCP SDK cannot be loaded; the log of the API's start says why.")
        await self._app(scope, receive, send)

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """Serve while the block runs. The sessions end with it."""
        closed = asyncio.Event()
        # The SDK's sessions have to be entered and left by the same task.
        serving = asyncio.create_task(self._serve(closed), name="mcp")
        try:
            yield
        finally:
            closed.set()
            await serving

    async def _serve(self, closed: asyncio.Event) -> None:
        try:
            streamable_http = await asyncio.to_thread(_load)
            served = streamable_http(self._services, PATH)
            async with served.sessions():
                self._app = served.app
                self._opened.set()
                await closed.wait()
        except Exception:
            log.exception("MCP is not served")
        finally:
            self._opened.set()


def _load() -> "type[StreamableHttp]":
    from outlast.api.mcp.streamable_http import StreamableHttp  # noqa: PLC0415 (the MCP SDK)

    return StreamableHttp


def install_mcp(app: FastAPI, services: Services) -> None:
    """Serve MCP at `/mcp` of `app`, for as long as `app` runs."""
    door = McpDoor(services)
    app.router.routes.append(Route(PATH, endpoint=door, include_in_schema=False))
    app.router.lifespan_context = _with(door, app.router.lifespan_context)


def _with(door: McpDoor, outer: Lifespan) -> Lifespan:
    @asynccontextmanager
    async def lifespan(running: Any) -> AsyncGenerator[Any]:
        async with outer(running) as state, door.open():
            yield state

    return lifespan
