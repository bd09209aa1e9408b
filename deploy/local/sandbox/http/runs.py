"""Routes of runs: start, get, list, abort, update, delete, resurrect, log, charge; the websocket of their events."""

from __future__ import annotations

import asyncio
import contextlib

import orjson
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from outlast.deploy.local.sandbox.accounts import User
from outlast.deploy.local.sandbox.execution import read_log
from outlast.deploy.local.sandbox.formats import ApiError, now
from outlast.deploy.local.sandbox.http import query
from outlast.deploy.local.sandbox.http.query import body_object, data_response, flag
from outlast.deploy.local.sandbox.http.starts import Start, StartedBy, StartOptions, check_resurrection, start_run
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.runs import Run

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
