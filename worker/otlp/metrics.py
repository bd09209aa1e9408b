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
import math
from collections.abc import Iterator, Mapping
from itertools import groupby, pairwise

from opentelemetry.sdk.metrics.export import (
    AggregationTemporality,
    Gauge,
    Histogram,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    Sum,
)
from prometheus_client.samples import Sample

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
        log.warning("Metrics could not be sent: %s", error)


def _data_of(families: Iterable[Family], process: Process, since: int) -> "MetricsData":
    from opentelemetry.sdk.metrics.export import MetricsData, ResourceMetrics, ScopeMetrics  # noqa: PLC0415
    from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope  # noqa: PLC0415

    metrics = list(metrics_of(families, since_nanoseconds=since, now_nanoseconds=time.time_ns()))
    scope = ScopeMetrics(InstrumentationScope("outlast"), metrics, "")
    return MetricsData([ResourceMetrics(Resource.create(dict(resource_of(process))), [scope], "")])


_BOUND = "le"
_CUMULATIVE = AggregationTemporality.CUMULATIVE


def metrics_of(families: Iterable[Family], *, since_nanoseconds: int, now_nanoseconds: int) -> Iterator[Metric]:
    """Counters, gauges and histograms, with the name and the labels that they have in Prometheus.

    A counter has no `_total` in its name: Prometheus adds it again.
    """
    for family in families:
        times = (since_nanoseconds, now_nanoseconds)
        data: Sum | Gauge | Histogram
        match family.type:
            case "counter":
                data = Sum(_numbers(family, f"{family.name}_total", *times), _CUMULATIVE, is_monotonic=True)
            case "gauge":
                data = Gauge(_numbers(family, family.name, *times))
            case "histogram":
                data = Histogram(list(_histograms(family, *times)), _CUMULATIVE)
            case _:
                continue
        if data.data_points:
            yield Metric(family.name, family.documentation, "", data)


def _numbers(family: Family, name: str, since: int, now: int) -> list[NumberDataPoint]:
    return [
        NumberDataPoint(sample.labels, since, now, float(sample.value))
        for sample in family.samples
        if sample.name == name
    ]


def _histograms(family: Family, since: int, now: int) -> Iterator[HistogramDataPoint]:
    for labels, samples in groupby(sorted(family.samples, key=_series), key=_series):
        found = list(samples)
        values = {sample.name.removeprefix(family.name): sample.value for sample in found}
        # Infinity is the last; what is counted up to each bound becomes what lies between two.
        below = sorted((float(sample.labels[_BOUND]), sample.value) for sample in found if _BOUND in sample.labels)
        counts = [0, *(int(count) for _, count in below)]
        yield HistogramDataPoint(
            attributes=dict(labels),
            start_time_unix_nano=since,
            time_unix_nano=now,
            count=int(values.get("_count", counts[-1])),
            sum=float(values.get("_sum", 0)),
            bucket_counts=[after - before for before, after in pairwise(counts)],
            explicit_bounds=[bound for bound, _ in below if math.isfinite(bound)],
            min=math.nan,
            max=math.nan,
        )


def _series(sample: Sample) -> tuple[tuple[str, str], ...]:
    """The common part of all samples of one histogram."""
    labels: Mapping[str, str] = sample.labels
    return tuple(sorted((name, value) for name, value in labels.items() if name != _BOUND))
