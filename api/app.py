"""The FastAPI application: routes, errors, limits."""

import asyncio
import ctypes
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

from fastapi import FastAPI
from fastapi.telemetry import TelemetryConfig
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from outlast.activities import apify
from outlast.api.adapters import routes as adapter_routes
from outlast.api.console import install_console
from outlast.api.http.browser_sessions import BrowserSessions
from outlast.api.http.documents import install_docs, install_resource_metadata, install_server_card, publish_openapi
from outlast.api.http.entry import Entry
from outlast.api.http.problems import install_problem_handlers
from outlast.api.mcp.streamable_http import install_mcp
from outlast.api.rest import (
    batch_routes,
    operator_routes,
    output_routes,
    schedule_routes,
    server_routes,
    session_routes,
    task_routes,
    webhook_routes,
)
from outlast.api.schedules.firings import CallerFirings, FiringHost
from outlast.api.services import Services, current_servers
from outlast.api.settings import split_names
from outlast.worker.otlp.metrics import sending_metrics

_EVERY_SECONDS = 10.0
DESCRIPTION = """
Every tool call is a durable task: it survives the crash of any process, never pays twice for one run, and can be
awaited or collected later. Errors are problem documents (RFC 9457) whose `detail` says what to do.
"""
_UNTRACED = frozenset({"/healthz", "/metrics", "/readyz"})
TRACED: TelemetryConfig = {
    "tracing": True,
    "metrics": False,
    "logs": False,
    "operation_spans": False,
    "auto_configure": False,
    "exclude": lambda scope: scope.get("path") in _UNTRACED,
}
"""A span for each request, while the process traces: `worker/otlp`. That removes what must not be exported."""
_ROUTERS = (
    task_routes.router,
    task_routes.rows_router,
    task_routes.programs_router,
    batch_routes.router,
    schedule_routes.router,
    schedule_routes.saved_calls_router,
    task_routes.handoffs_router,
    session_routes.providers_router,
    session_routes.router,
    task_routes.tools_router,
    output_routes.router,
    operator_routes.usage_router,
    server_routes.router,
    webhook_routes.router,
    adapter_routes.router,
    operator_routes.router,
    operator_routes.codec_router,
)


def build_app(services: Services) -> FastAPI:
    """Return the application that serves `services`."""
    app = FastAPI(
        title="Outlast",
        version="0.1.0",
        description=DESCRIPTION,
        separate_input_output_schemas=False,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        lifespan=lambda _: _background(services),
        telemetry=TRACED,
    )
    app.state.services = services
    app.state.kept_answers = operator_routes.KeptAnswers(services)
    install_problem_handlers(app)
    for router in _ROUTERS:
        # `include_router` would analyse each route once more, at the first request, and search it in two steps.
        app.router.routes.extend(router.routes)
    install_mcp(app, services)
    install_resource_metadata(app, services.callers.resource)
    install_server_card(app, services.callers)
    publish_openapi(app)
    install_docs(app)
    settings, sessions = services.settings, None
    if settings.web_console == "on":
        sessions = BrowserSessions(services.callers, services.sealer)
        install_console(app, services, sessions)
    callers, limits = services.callers, services.limits
    app.add_middleware(Entry, settings=settings, callers=callers, limits=limits, sessions=sessions)
    if proxies := split_names(settings.trusted_proxies):
        app.add_middleware(ProxyHeadersMiddleware, trusted_hosts=list(proxies))
    return app


@asynccontextmanager
async def _background(services: Services) -> AsyncGenerator[None]:
    """Background work, beside the requests."""
    series = partial(operator_routes.current_series, services)
    loading = asyncio.create_task(asyncio.to_thread(apify.load))
    async with (
        freed_memory_given_back(),
        services.policy.watched(),
        current_servers(services),
        services.queue_keeper.watching(),
        services.quick_calls.serving(),
        FiringHost(services.settings, firings_of(services)).serving(),
        sending_metrics(services.settings, "api", series),
    ):
        yield
    await loading


def firings_of(services: Services) -> CallerFirings:
    """Return the starter of due calls."""
    schedules, tasks, batches = services.schedules, services.tasks, services.batches
    return CallerFirings(
        services.callers, schedules.due, services.saved_calls, tasks, batches, services.stored_rows, schedules
    )


@asynccontextmanager
async def freed_memory_given_back() -> AsyncGenerator[None]:
    """Release freed memory periodically during the block. Does nothing without glibc."""
    trim: Callable[[int], int] | None = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is None:
        yield
        return
    trimming = asyncio.create_task(_trim(trim))
    try:
        yield
    finally:
        trimming.cancel()
        with suppress(asyncio.CancelledError):
            await trimming


async def _trim(trim: Callable[[int], int]) -> None:
    while True:
        await asyncio.sleep(_EVERY_SECONDS)
        trim(0)  # takes a few milliseconds at most
