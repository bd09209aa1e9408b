"""The web application: all routes, wrapped in the counters and, outermost, the faults."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from outlast.deploy.local.sandbox.faults import CountingMiddleware, FaultMiddleware
from outlast.deploy.local.sandbox.formats import EXCEPTION_HANDLERS, ApiError, not_found
from outlast.deploy.local.sandbox.http.actors import ActorRoutes, UserRoutes
from outlast.deploy.local.sandbox.http.query import body_object, json_response
from outlast.deploy.local.sandbox.http.request_queues import RequestQueueRoutes
from outlast.deploy.local.sandbox.http.runs import RunRoutes, Standby
from outlast.deploy.local.sandbox.http.site import Site
from outlast.deploy.local.sandbox.http.starts import ActorTaskRoutes, ScheduleRoutes, schedules_firing
from outlast.deploy.local.sandbox.http.storages import DatasetRoutes, KeyValueStoreRoutes
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.settings import is_loopback
from outlast.paths import docs_dir

Handler = Callable[[Request], Awaitable[Response]]


class ControlRoutes:
    """`/sandbox`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def routes(self) -> list[Route]:
        """Return the routes to add to the application."""
        return [
            Route("/sandbox/healthz", _local(self._health), methods=["GET"]),
            Route("/sandbox/counters", _local(self._counters), methods=["GET"]),
            Route("/sandbox/faults", _local(self._list_faults), methods=["GET"]),
            Route("/sandbox/faults", _local(self._add_fault), methods=["POST"]),
            Route("/sandbox/faults", _local(self._clear_faults), methods=["DELETE"]),
            Route("/sandbox/faults/{fault_id:int}", _local(self._clear_fault), methods=["DELETE"]),
            Route("/sandbox/limits", _local(self._get_limits), methods=["GET"]),
            Route("/sandbox/limits", _local(self._set_limits), methods=["POST"]),
            Route("/sandbox/users", _local(self._add_user), methods=["POST"]),
            Route("/sandbox/runs/{run_id}/usage", _local(self._add_usage), methods=["POST"]),
            Route("/sandbox/runs/{run_id}/lose", _local(self._lose), methods=["POST"]),
            Route("/sandbox/schedules/{schedule_id}/due", _local(self._make_due), methods=["POST"]),
            Route("/sandbox/settlements", _local(self._settlements), methods=["GET"]),
            Route("/sandbox/actors", _local(self._actors), methods=["GET"]),
        ]

    async def _health(self, _request: Request) -> Response:
        return json_response({"status": "ok", "actors": len(self._platform.catalogue.all())})

    async def _counters(self, _request: Request) -> Response:
        self._platform.runs.flush()
        return json_response(self._platform.counters.report())

    async def _list_faults(self, _request: Request) -> Response:
        return json_response({"faults": self._platform.faults.all()})

    async def _add_fault(self, request: Request) -> Response:
        return json_response(self._platform.faults.add(await body_object(request)).shown(), 201)

    async def _clear_faults(self, _request: Request) -> Response:
        return json_response({"withdrawn": self._platform.faults.clear()})

    async def _clear_fault(self, request: Request) -> Response:
        if not self._platform.faults.clear(request.path_params["fault_id"]):
            raise not_found("Fault")
        return json_response({"withdrawn": 1})

    async def _get_limits(self, _request: Request) -> Response:
        limits = self._platform.limits
        return json_response({"memoryMbytes": limits.memory_mbytes, "concurrentRuns": limits.concurrent_runs})

    async def _set_limits(self, request: Request) -> Response:
        body, limits = await body_object(request), self._platform.limits
        limits.memory_mbytes = int(body.get("memoryMbytes", limits.memory_mbytes))
        limits.concurrent_runs = int(body.get("concurrentRuns", limits.concurrent_runs))
        return await self._get_limits(request)

    async def _make_due(self, request: Request) -> Response:
        """Make a schedule due now. It fires as at its normal times."""
        schedule = self._platform.schedules.any(request.path_params["schedule_id"])
        self._platform.schedules.make_due(schedule)
        self._platform.schedules_changed.set()
        return json_response({"due": True})

    async def _add_user(self, request: Request) -> Response:
        body = await body_object(request)
        username = str(body.get("username", ""))
        if not username:
            raise ApiError(400, "invalid-input", "'username' is required")
        token = str(body.get("token") or f"apify_api_{secrets.token_urlsafe(24)}")
        user = self._platform.users.add(username, token)
        if body.get("tier"):
            self._platform.users.set_tier(user.id, str(body["tier"]))
        return json_response({"id": user.id, "username": username, "token": token}, 201)

    async def _add_usage(self, request: Request) -> Response:
        """Add to the cost of a run, as a platform does that finalises usage after the run's end."""
        run = self._platform.runs.any(request.path_params["run_id"])
        run.charged_usd = round(run.charged_usd + float((await body_object(request)).get("usd", 0)), 9)
        self._platform.runs.save(run)
        return json_response({"usageTotalUsd": self._platform.runs.cost_usd(run)})

    async def _lose(self, request: Request) -> Response:
        """End a run as if its server had died."""
        run = self._platform.runs.any(request.path_params["run_id"])
        self._platform.supervisor.lose(run)
        return json_response({"lost": not run.is_final})

    async def _settlements(self, _request: Request) -> Response:
        return json_response({"settlements": self._platform.settlements.all()})

    async def _actors(self, _request: Request) -> Response:
        actors = [
            {"id": actor.id, "name": actor.full_name, "folder": str(actor.folder), "command": actor.command}
            for actor in self._platform.catalogue.all()
        ]
        return json_response({"actors": actors})


def _local(handler: Handler) -> Handler:
    async def guarded(request: Request) -> Response:
        if request.client is None or not is_loopback(request.client.host):
            raise ApiError(403, "insufficient-permissions", "The control API answers on this machine only")
        return await handler(request)

    return guarded


def build_app(platform: Platform) -> ASGIApp:
    """Return the application that uvicorn serves."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        platform.begin()
        async with aclosing(standby), schedules_firing(platform):
            yield
        await platform.end()

    base_url, logs = platform.settings.base_url, platform.settings.data_dir / "standby"
    standby = Standby(platform.catalogue, platform.users, base_url=base_url, logs=logs)
    site = Site(platform.settings.site_dir or docs_dir(), platform.settings.base_url)
    routes: list[BaseRoute] = [
        # The storages of a run come before the run: `/runs/last/dataset` must not be read as a run of that name.
        *DatasetRoutes(platform).routes(),
        *KeyValueStoreRoutes(platform).routes(),
        *RequestQueueRoutes(platform).routes(),
        *RunRoutes(platform).routes(),
        *ActorRoutes(platform).routes(),
        *ActorTaskRoutes(platform).routes(),
        *ScheduleRoutes(platform).routes(),
        *UserRoutes(platform).routes(),
        *ControlRoutes(platform).routes(),
        *standby.routes(),
        *site.routes(),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers=EXCEPTION_HANDLERS)
    return FaultMiddleware(CountingMiddleware(app, platform.counters), platform.faults)
