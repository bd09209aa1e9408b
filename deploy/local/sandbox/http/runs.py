"""Routes of runs: start, get, list, abort, update, delete, resurrect, log, charge; the websocket of their events."""

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

import orjson
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from outlast.deploy.local.orphans import die_with_parent
from outlast.deploy.local.ports import any_free
from outlast.deploy.local.sandbox.accounts import User, Users
from outlast.deploy.local.sandbox.actors import Actor, Catalogue
from outlast.deploy.local.sandbox.execution import read_log, standby_environment
from outlast.deploy.local.sandbox.formats import ApiError, now
from outlast.deploy.local.sandbox.http import query
from outlast.deploy.local.sandbox.http.query import body_object, data_response, flag
from outlast.deploy.local.sandbox.http.starts import Start, StartedBy, StartOptions, check_resurrection, start_run
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.runs import Run

if TYPE_CHECKING:
    import httpx

_UNKNOWN_RUN = 1008
MAX_SYNC_SECONDS = 300


class RunRoutes:
    """`/actor-runs`, the runs below Actors and tasks, and `/events/RUN`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def routes(self) -> list[BaseRoute]:
        """Return the routes to add to the application."""
        task = "/v2/actor-tasks/{task_id}/runs"
        found: list[BaseRoute] = [
            WebSocketRoute("/events/{run_id}", self._events),
            Route("/v2/actor-runs", self._list, methods=["GET"]),
            Route("/v2/logs/{run_id}", self._log, methods=["GET"]),
            *self._run_routes("/v2/actor-runs/{run_id}"),
            Route(task, self._list, methods=["GET"]),
            *self._run_routes(f"{task}/last"),
        ]
        for prefix in ("/v2/acts/{actor_id}", "/v2/actors/{actor_id}"):
            found += [
                Route(f"{prefix}/runs", self._list, methods=["GET"]),
                Route(f"{prefix}/runs", self._start, methods=["POST"]),
                Route(f"{prefix}/run-sync", self._run_sync, methods=["POST", "GET"]),
                *self._run_routes(f"{prefix}/runs/last"),
                *self._run_routes(f"{prefix}/runs/{{run_id}}"),
            ]
        return found

    def _run_routes(self, prefix: str) -> list[Route]:
        return [
            Route(prefix, self._get, methods=["GET"]),
            Route(prefix, self._update, methods=["PUT"]),
            Route(prefix, self._delete, methods=["DELETE"]),
            Route(f"{prefix}/abort", self._abort, methods=["POST"]),
            Route(f"{prefix}/resurrect", self._resurrect, methods=["POST"]),
            Route(f"{prefix}/charge", self._charge, methods=["POST"]),
            Route(f"{prefix}/log", self._log, methods=["GET"]),
        ]

    def _details(self, run: Run, status: int = 200) -> Response:
        return data_response(self._platform.runs.details(run), status)

    def _caller_and_run(self, request: Request) -> tuple[User, Run]:
        user = self._platform.users.caller(request)
        return user, self._platform.run_of(request, user)

    async def _start(self, request: Request) -> Response:
        run = await self._started(request)
        return self._details(await self._platform.supervisor.wait(run, query.wait_seconds(request)), 201)

    async def _started(self, request: Request) -> Run:
        platform = self._platform
        user = platform.users.caller(request)
        actor = platform.catalogue.find(request.path_params["actor_id"], user)
        body, content_type = await query.body_bytes(request), request.headers.get("content-type", "")
        start = Start(actor, user, StartOptions.of(request), body, content_type)
        return start_run(platform, StartedBy.of(request, user), start)

    async def _run_sync(self, request: Request) -> Response:
        """Wait for the run and respond with its OUTPUT record."""
        run = await self._platform.supervisor.wait(await self._started(request), MAX_SYNC_SECONDS)
        if run.status != "SUCCEEDED":
            raise ApiError(400, "run-failed", f"Actor run did not succeed (run ID: {run.id}, status: {run.status})")
        found = self._platform.stores.get(run.store_id, request.query_params.get("outputRecordKey", "OUTPUT"))
        if found is None:
            return Response(status_code=201)
        return Response(found[0].read_bytes(), 201, media_type=found[1]["content_type"])

    async def _get(self, request: Request) -> Response:
        _, run = self._caller_and_run(request)
        seconds = query.wait_seconds(request)
        earlier = self._platform.runs.details_shown_still(run)
        if earlier is not None:
            return data_response(earlier)
        return self._details(await self._platform.supervisor.wait(run, seconds))

    async def _list(self, request: Request) -> Response:
        platform = self._platform
        user = platform.users.caller(request)
        page = query.page_of(request)
        filters = {
            "user_id": user.id,
            **platform.scope_of(request, user),
            "after": query.moment(request, "startedAfter"),
            "before": query.moment(request, "startedBefore"),
        }
        runs, total = platform.runs.list(filters, query.names(request, "status"), page)
        hidden = platform.faults.of_request("hide_list_user_agent", request)
        items = [platform.runs.list_item(run, with_user_agent=hidden is None) for run in runs]
        return query.page_response(items, total, page)

    async def _abort(self, request: Request) -> Response:
        _, run = self._caller_and_run(request)
        self._platform.supervisor.abort(run, gracefully=flag(request, "gracefully"))
        return self._details(run)

    async def _update(self, request: Request) -> Response:
        _, run = self._caller_and_run(request)
        changes = await body_object(request)
        if "generalAccess" in changes:
            run.general_access = changes["generalAccess"]
        self._platform.supervisor.set_status_message(
            run, changes.get("statusMessage"), is_terminal=changes.get("isStatusMessageTerminal")
        )
        self._platform.runs.save(run)
        return self._details(run)

    async def _delete(self, request: Request) -> Response:
        _, run = self._caller_and_run(request)
        if not run.is_final:
            raise ApiError(400, "cannot-delete-running-actor-run", "Only runs that have ended can be deleted")
        self._platform.runs.delete(run)
        return Response(status_code=204)

    async def _resurrect(self, request: Request) -> Response:
        """Start the process of an ended run again, with the same storages."""
        platform = self._platform
        user, run = self._caller_and_run(request)
        if not run.is_final:
            raise ApiError(400, "run-not-finished", "Only runs that have ended can be resurrected")
        options = StartOptions.of(request)
        memory_mbytes = check_resurrection(platform, run, options)
        platform.limits.check(platform.runs.open, user.id, memory_mbytes)
        late = platform.faults.of_request("late_resurrection", request)
        if late is not None:
            platform.runs.show_still(run, seconds=float(late.options.get("seconds", 5)))
        with platform.database.transaction():
            run.begin_another_attempt()
            run.memory_mbytes = memory_mbytes
            run.timeout_seconds = run.timeout_seconds if options.timeout_seconds is None else options.timeout_seconds
            run.max_total_charge_usd = options.max_total_charge_usd or run.max_total_charge_usd
            if options.max_items is not None:
                run.max_items = options.max_items
                platform.datasets.limit(run.dataset_id, options.max_items)
            platform.runs.save(run)
        platform.supervisor.start(run)
        return self._details(run)

    async def _charge(self, request: Request) -> Response:
        """Count a pay-per-event event once per idempotency key."""
        _, run = self._caller_and_run(request)
        body = await body_object(request)
        event, count = str(body.get("eventName", "")), body.get("count", 1)
        if event not in run.prices or not isinstance(count, int) or count < 1:
            raise ApiError(
                400, "invalid-input", f"This Actor has no event '{event}', or its count is not a positive number"
            )
        key = request.headers.get("idempotency-key", f"{event}-{now()}")
        is_new = self._platform.database.run(
            "INSERT OR IGNORE INTO charges (run_id, idempotency_key, event, count) VALUES (?, ?, ?, ?)",
            (run.id, key, event, count),
        )
        if is_new:
            run.charged[event] = run.charged.get(event, 0) + count
            run.charged_usd = round(run.charged_usd + count * run.prices[event], 9)
            self._platform.runs.save(run)
        return Response(status_code=201)

    async def _log(self, request: Request) -> Response:
        platform = self._platform
        _, run = self._caller_and_run(request)
        path = platform.supervisor.log_path(run.id)
        follow = flag(request, "stream")
        pieces = read_log(path, lambda: platform.supervisor.is_open(run.id), follow=follow)
        return StreamingResponse(pieces, media_type="text/plain; charset=utf-8")

    async def _events(self, socket: WebSocket) -> None:
        await socket.accept()
        run_id = str(socket.path_params["run_id"])
        queue = self._platform.supervisor.listen(run_id)
        if queue is None:
            await socket.close(_UNKNOWN_RUN, "There is no open run with this id")
            return
        sender = asyncio.create_task(_send(socket, queue))
        try:
            while True:
                await socket.receive_text()
        except WebSocketDisconnect:
            pass
        finally:
            sender.cancel()
            self._platform.supervisor.unlisten(run_id, queue)


async def _send(socket: WebSocket, queue: asyncio.Queue[dict[str, object]]) -> None:
    # A socket that closes during a send is not an error: the reader detects the end.
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await socket.send_text(orjson.dumps(await queue.get()).decode())


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
