"""From the series of Prometheus to metrics of OpenTelemetry, as its specification of compatibility says."""

import math
from collections.abc import Iterable, Iterator, Mapping
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
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.samples import Sample

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
