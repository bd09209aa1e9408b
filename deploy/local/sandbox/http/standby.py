"""Actors that serve HTTP (Actor Standby): one process per Actor and user, started by the first request to it.

`/standby/USER~NAME/PATH` corresponds to `https://USER--NAME.apify.actor/PATH` on Apify. Unlike there, a Standby process
is not a run: it has no storages, costs nothing, and ends when it has been idle or when the sandbox ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import socket
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from outlast.deploy.local.orphans import die_with_parent
from outlast.deploy.local.ports import any_free
from outlast.deploy.local.sandbox.accounts import User, Users
from outlast.deploy.local.sandbox.actors import Actor, Catalogue
from outlast.deploy.local.sandbox.execution import standby_environment
from outlast.deploy.local.sandbox.formats import ApiError

if TYPE_CHECKING:
    import httpx

_START_SECONDS = 30.0
_IDLE_SECONDS = 300.0
_TICK_SECONDS = 5.0
_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]
_HOP_BY_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "upgrade", "host", "content-length"})


@dataclass(slots=True)
class _Server:
    """Standby process. It is not idle while it has open requests."""

    key: tuple[str, str]
    process: asyncio.subprocess.Process
    url: str
    token: str
    open_requests: int = 0
    last_used: float = field(default_factory=monotonic)


class Standby:
    """Standby processes, and the route that forwards requests to them."""

    def __init__(self, catalogue: Catalogue, users: Users, *, base_url: str, logs: Path) -> None:
        self._catalogue = catalogue
        self._users = users
        self._base_url = base_url
        self._logs = logs
        self._servers: dict[tuple[str, str], _Server] = {}
        self._starting = asyncio.Lock()
        self._ticker: asyncio.Task[None] | None = None

    @cached_property
    def _http(self) -> httpx.AsyncClient:
        import httpx  # noqa: PLC0415 (few Actors use Standby: the sandbox starts sooner)

        return httpx.AsyncClient(trust_env=False, timeout=None)  # noqa: S113 (the caller's time-outs hold)

    def routes(self) -> list[Route]:
        """Return the routes to add to the application."""
        return [Route("/standby/{actor_id}/{path:path}", self._proxy, methods=_METHODS)]

    async def aclose(self) -> None:
        """End every process."""
        if self._ticker is not None:
            self._ticker.cancel()
        for server in list(self._servers.values()):
            await self._stop(server)
        if "_http" in vars(self):
            await self._http.aclose()

    async def _proxy(self, request: Request) -> Response:
        import httpx  # noqa: PLC0415

        user = self._users.caller(request)
        actor = self._catalogue.find_host(request.path_params["actor_id"], user)
        if not actor.definition.get("usesStandbyMode"):
            raise ApiError(400, "actor-standby-not-enabled", f"Actor {actor.full_name} does not use standby mode")
        server = await self._server(actor, user)
        server.open_requests += 1
        try:
            answer = await self._forward(request, server)
        except httpx.HTTPError as error:
            self._released(server)
            raise ApiError(502, "actor-standby-failed", f"The Actor's server failed: {type(error).__name__}") from error
        except BaseException:
            self._released(server)
            raise
        headers = {name: value for name, value in answer.headers.items() if name not in _HOP_BY_HOP}
        closing = BackgroundTask(self._close, answer, server)
        return StreamingResponse(answer.aiter_raw(), answer.status_code, headers, background=closing)

    async def _forward(self, request: Request, server: _Server) -> httpx.Response:
        import httpx  # noqa: PLC0415

        # The caller's token is not forwarded: the Actor gets its own, which is invalid once the process ends.
        withheld = {*_HOP_BY_HOP, "authorization"}
        kept = {name: value for name, value in request.headers.items() if name not in withheld}
        url = httpx.URL(f"{server.url}/{request.path_params['path']}").copy_with(query=request.url.query.encode())
        outgoing = self._http.build_request(request.method, url, headers=kept, content=await request.body())
        return await self._http.send(outgoing, stream=True)

    async def _close(self, answer: httpx.Response, server: _Server) -> None:
        await answer.aclose()
        self._released(server)

    @staticmethod
    def _released(server: _Server) -> None:
        server.open_requests -= 1
        server.last_used = monotonic()

    async def _server(self, actor: Actor, user: User) -> _Server:
        async with self._starting:
            self._ticker = self._ticker or asyncio.create_task(self._stop_idle())
            server = self._servers.get((actor.id, user.id))
            if server is None or server.process.returncode is not None:
                server = await self._start(actor, user)
                self._servers[server.key] = server
            return server

    async def _start(self, actor: Actor, user: User) -> _Server:
        port = any_free("127.0.0.1")
        token = f"apify_api_standby_{secrets.token_urlsafe(24)}"
        self._users.add_token(token, user.id, f"standby-{token[-12:]}")
        self._logs.mkdir(parents=True, exist_ok=True)
        with (self._logs / f"{actor.username}~{actor.name}.log").open("ab") as output:
            process = await asyncio.create_subprocess_exec(
                *actor.command,
                cwd=actor.folder,
                env=standby_environment(actor, user_id=user.id, token=token, base_url=self._base_url, port=port),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        server = _Server((actor.id, user.id), process, f"http://127.0.0.1:{port}", token)
        if not await _listens(process, port):
            await self._stop(server)
            raise ApiError(502, "actor-standby-failed", f"Actor {actor.full_name} did not start to accept connections")
        return server

    async def _stop(self, server: _Server) -> None:
        self._servers.pop(server.key, None)
        self._users.drop_run_token(f"standby-{server.token[-12:]}")
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(server.process.pid, signal.SIGKILL)
        await server.process.wait()

    async def _stop_idle(self) -> None:
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            for server in list(self._servers.values()):
                if not server.open_requests and monotonic() - server.last_used > _IDLE_SECONDS:
                    await self._stop(server)


async def _listens(process: asyncio.subprocess.Process, port: int) -> bool:
    """Wait until the Actor's server accepts connections; return False if it does not or its process ends."""
    deadline = monotonic() + _START_SECONDS
    while process.returncode is None and monotonic() < deadline:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return True
        await asyncio.sleep(0.02)
    return False
