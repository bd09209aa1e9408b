"""The WebSocket that sends an Actor its events: aborts, migrations, its memory use."""

from __future__ import annotations

import asyncio
import contextlib

import orjson
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from outlast.deploy.local.sandbox.platform import Platform

_UNKNOWN_RUN = 1008


class EventRoutes:
    """`/events/RUN`."""

    def __init__(self, platform: Platform) -> None:
        self._supervisor = platform.supervisor

    def routes(self) -> list[WebSocketRoute]:
        """The routes to add to the application."""
        return [WebSocketRoute("/events/{run_id}", self._events)]

    async def _events(self, socket: WebSocket) -> None:
        await socket.accept()
        run_id = str(socket.path_params["run_id"])
        queue = self._supervisor.listen(run_id)
        if queue is None:
            await socket.close(_UNKNOWN_RUN, "There is no such open run")
            return
        sender = asyncio.create_task(_send(socket, queue))
        try:
            while True:
                await socket.receive_text()
        except WebSocketDisconnect:
            pass
        finally:
            sender.cancel()
            self._supervisor.unlisten(run_id, queue)


async def _send(socket: WebSocket, queue: asyncio.Queue[dict[str, object]]) -> None:
    # It is no error when the socket closes during a send: the reader notices the end.
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        await _send_all(socket, queue)


async def _send_all(socket: WebSocket, queue: asyncio.Queue[dict[str, object]]) -> None:
    while True:
        await socket.send_text(orjson.dumps(await queue.get()).decode())
