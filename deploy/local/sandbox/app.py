"""The web application: all routes, and around them the counters and, outermost, the faults."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from deploy.local.sandbox.counters import CountingMiddleware
from deploy.local.sandbox.errors import ApiError, handle_api_error, handle_crash, handle_no_route, handle_wrong_method
from deploy.local.sandbox.faults import FaultMiddleware
from deploy.local.sandbox.platform import Platform
from deploy.local.sandbox.routes.actors import ActorRoutes
from deploy.local.sandbox.routes.control import ControlRoutes
from deploy.local.sandbox.routes.datasets import DatasetRoutes
from deploy.local.sandbox.routes.events import EventRoutes
from deploy.local.sandbox.routes.key_value_stores import KeyValueStoreRoutes
from deploy.local.sandbox.routes.request_queues import RequestQueueRoutes
from deploy.local.sandbox.routes.runs import RunRoutes
from deploy.local.sandbox.routes.tasks import TaskRoutes
from deploy.local.sandbox.routes.users import UserRoutes
from deploy.local.sandbox.settings import DEFAULT_SITE
from deploy.local.sandbox.site import Site
from deploy.local.sandbox.standby import Standby, standing_by


def build_app(platform: Platform) -> ASGIApp:
    """The application that uvicorn serves."""

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        platform.begin()
        async with standing_by(standby):
            yield
        await platform.end()

    base_url, logs = platform.settings.base_url, platform.settings.data_dir / "standby"
    standby = Standby(platform.catalogue, platform.users, base_url=base_url, logs=logs)
    site = Site(platform.settings.site_dir or DEFAULT_SITE, platform.settings.base_url)
    routes: list[BaseRoute] = [
        # The storages of a run come before the run: `/runs/last/dataset` must not be read as a run of that name.
        *DatasetRoutes(platform).routes(),
        *KeyValueStoreRoutes(platform).routes(),
        *RequestQueueRoutes(platform).routes(),
        *RunRoutes(platform).routes(),
        *ActorRoutes(platform).routes(),
        *TaskRoutes(platform).routes(),
        *UserRoutes(platform).routes(),
        *ControlRoutes(platform).routes(),
        *EventRoutes(platform).routes(),
        *standby.routes(),
        *site.routes(),
    ]
    app = Starlette(
        routes=routes,
        lifespan=lifespan,
        exception_handlers={
            ApiError: handle_api_error,
            404: handle_no_route,
            405: handle_wrong_method,
            500: handle_crash,
        },
    )
    return FaultMiddleware(CountingMiddleware(app, platform.counters), platform.faults)
