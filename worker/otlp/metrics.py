"""Metrics for those without Prometheus: the series of `/metrics`, sent to an OpenTelemetry collector.

Temporal's runtime could send those of a worker by itself, but has one exporter only: `/metrics`, which probes and
autoscalers read, would be gone, and the names would be others.
"""

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

import httpx
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families

from outlast.worker.otlp.collector import Process, headers_of, resource_of, signal_url
from outlast.worker.settings import Settings

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData

Read = Callable[[], Awaitable[Iterable[Family]]]
"""Reads the series of this process as they are now."""
_INTERVAL = "OTEL_METRIC_EXPORT_INTERVAL"
_DEFAULT_INTERVAL_MILLISECONDS = 60_000
_LAST_SECONDS = 3.0

log = logging.getLogger("outlast")


@asynccontextmanager
async def sending_metrics(settings: Settings, process: Process, read: Read) -> AsyncGenerator[None]:
    """Send what `read` finds to the collector while the block runs, and a last time after it.

    Every `OTEL_METRIC_EXPORT_INTERVAL` milliseconds, 60,000 by default. Without `otlp_metrics` nothing is sent.
    """
    if settings.otlp_endpoint is None or not settings.otlp_metrics:
        yield
        return
    # The SDK takes 0.1 seconds to load: only where metrics are sent.
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter  # noqa: PLC0415

    exporter = OTLPMetricExporter(
        endpoint=signal_url(settings.otlp_endpoint, "metrics"), headers=dict(headers_of(settings))
    )
    since = time.time_ns()

    async def send() -> None:
        data = _data_of(await read(), process, since)
        await asyncio.to_thread(partial(exporter.export, data))  # pyright: ignore[reportUnknownMemberType]  # a type is left open

    task = asyncio.create_task(_forever(send))
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError, TimeoutError):
            async with asyncio.timeout(_LAST_SECONDS):
                await asyncio.gather(task, return_exceptions=True)
                await _once(send)


async def series_at(url: str | None) -> Iterable[Family]:
    """The series that this process serves at `url`; None when it serves none."""
    if url is None:
        return ()
    async with httpx.AsyncClient(trust_env=False) as http:
        answer = await http.get(url)
    return tuple(text_string_to_metric_families(answer.raise_for_status().text))


async def _forever(send: Callable[[], Awaitable[None]]) -> None:
    while True:
        await asyncio.sleep(float(os.environ.get(_INTERVAL) or _DEFAULT_INTERVAL_MILLISECONDS) / 1_000)
        await _once(send)


async def _once(send: Callable[[], Awaitable[None]]) -> None:
    try:
        await send()
    except (httpx.HTTPError, OSError, ValueError) as error:
        log.warning("Metrics are not sent this time: %s", error)


def _data_of(families: Iterable[Family], process: Process, since: int) -> "MetricsData":
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

    from outlast.worker.otlp.metric_points import metrics_of  # noqa: PLC0415

    metrics = list(metrics_of(families, since_nanoseconds=since, now_nanoseconds=time.time_ns()))
    scope = ScopeMetrics(InstrumentationScope("outlast"), metrics, "")
    return MetricsData([ResourceMetrics(Resource.create(dict(resource_of(process))), [scope], "")])
