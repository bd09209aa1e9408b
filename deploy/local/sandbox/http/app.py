"""The web application: all routes, wrapped in the counters and, outermost, the faults."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from outlast.deploy.local.sandbox.faults import CountingMiddleware, FaultMiddleware
from outlast.deploy.local.sandbox.formats import EXCEPTION_HANDLERS
from outlast.deploy.local.sandbox.http.actors import ActorRoutes
from outlast.deploy.local.sandbox.http.control import ControlRoutes
from outlast.deploy.local.sandbox.http.request_queues import RequestQueueRoutes
from outlast.deploy.local.sandbox.http.runs import RunRoutes
from outlast.deploy.local.sandbox.http.saved_tasks import ActorTaskRoutes, ScheduleRoutes
from outlast.deploy.local.sandbox.http.site import Site
from outlast.deploy.local.sandbox.http.standby import Standby
from outlast.deploy.local.sandbox.http.starts import schedules_firing
from outlast.deploy.local.sandbox.http.storages import DatasetRoutes, KeyValueStoreRoutes
from outlast.deploy.local.sandbox.http.users import UserRoutes
from outlast.deploy.local.sandbox.platform import Platform
from outlast.paths import docs_dir


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
