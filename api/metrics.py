"""Metrics of the API process. What tools do is counted by the worker."""

import time

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.gc_collector import GCCollector
from prometheus_client.platform_collector import PlatformCollector
from prometheus_client.process_collector import ProcessCollector
from starlette.types import ASGIApp, Message, Receive, Scope, Send

REGISTRY = CollectorRegistry()
for _collector in (ProcessCollector, PlatformCollector, GCCollector):
    _collector(registry=REGISTRY)

REQUESTS = Counter("outlast_http_requests", "HTTP requests answered.", ["method", "route", "status"], registry=REGISTRY)
REQUEST_SECONDS = Histogram(
    "outlast_http_request_duration_seconds",
    "Time until an HTTP answer began.",
    ["method", "route"],
    registry=REGISTRY,
    buckets=(0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300),
)
MASK_RESOLUTIONS = Counter(
    "outlast_tool_mask_resolutions", "Tool masks resolved, by outcome.", ["outcome"], registry=REGISTRY
)
POLICY_LOADS = Counter(
    "outlast_policy_loads", "Times the policy file was read again, by outcome.", ["outcome"], registry=REGISTRY
)
OPEN_TASKS = Gauge("outlast_open_tasks", "Tasks whose workflow has not ended; NaN while unknown.", registry=REGISTRY)

_UNKNOWN_ROUTE = "(none)"
_METHODS = frozenset({"GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"})


class RequestMetrics:
    """ASGI middleware that counts requests by route pattern, never by path."""

    def __init__(self, app: ASGIApp) -> None:
        """Measure `app`."""
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        await self._app(scope, receive, _measured(scope, send))


def _measured(scope: Scope, send: Send) -> Send:
    began = time.perf_counter()
    method: str = scope["method"] if scope["method"] in _METHODS else "other"

    async def measured(message: Message) -> None:
        if message["type"] == "http.response.start":
            route = _route_of(scope)
            REQUESTS.labels(method, route, str(message["status"])).inc()
            REQUEST_SECONDS.labels(method, route).observe(time.perf_counter() - began)
        await send(message)

    return measured


def _route_of(scope: Scope) -> str:
    path: object = getattr(scope.get("route"), "path", None)
    return path if isinstance(path, str) else _UNKNOWN_ROUTE
