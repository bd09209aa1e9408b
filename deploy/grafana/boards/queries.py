"""Expressions that several dashboards share."""

INTERVAL = "$__rate_interval"


def rate(series: str, by: str = "") -> str:
    """Return the events per second, summed by labels (comma-separated) or over all."""
    return f"{_sum(by)}(rate({series}[{INTERVAL}]))"


def increase(series: str, by: str = "") -> str:
    """Return the events in the time that the dashboard shows.

    A series begins with its first event, which Prometheus does not count as an increase: it is added here.
    """
    grown = f"increase({series}[$__range])"
    first = f"(min_over_time({series}[$__range]) unless {series} offset $__range)"
    return f"{_sum(by)}({grown} + {first} or {grown})"


def share(part: str, whole: str, by: str = "") -> str:
    """Return the share of `part` in `whole` per second, 0 to 1; 0 while `part` has no events."""
    return f"({rate(part, by)} or 0 * {rate(whole, by)}) / ({rate(whole, by)} > 0)"


def quantile(level: float, histogram: str, by: str = "") -> str:
    """Return a quantile of a histogram; `histogram` has no `_bucket`, but may have labels."""
    name, brace, labels = histogram.partition("{")
    grouped = f"le, {by}" if by else "le"
    return f"histogram_quantile({level}, sum by ({grouped}) (rate({name}_bucket{brace}{labels}[{INTERVAL}])))"


def mean(histogram: str, by: str = "") -> str:
    """Return the mean of a histogram."""
    name, brace, labels = histogram.partition("{")
    return f"{rate(f'{name}_sum{brace}{labels}', by)} / ({rate(f'{name}_count{brace}{labels}', by)} > 0)"


def _sum(by: str) -> str:
    return f"sum by ({by}) " if by else "sum"
