"""Callers near a limit, from the metrics of the API."""

from prometheus_client.parser import text_string_to_metric_families

from outlast.cli.checks.check import Check, ok, skip, warn
from outlast.cli.connecting import trying_once
from outlast.cli.options import Options
from outlast.client import ConnectionFailed, OutlastError

_NAME = "Limits"
_SERIES = "outlast_limit_near_ratio"
_NEAR = 0.8


async def check_limits(options: Options) -> Check:
    """No caller is near a limit of the policy. Each API process reports its own share."""
    try:
        async with trying_once(options) as client:
            metrics = await client.metrics()
    except ConnectionFailed:
        return skip(_NAME, "the API does not answer")
    except OutlastError:
        return skip(_NAME, "the API shows no metrics here")
    if _SERIES not in metrics:
        return skip(_NAME, "the API shows no metrics here")
    near = [f"{caller} uses {share:.0%} of {limit}" for caller, limit, share in _shares(metrics) if share >= _NEAR]
    if near:
        return warn(_NAME, "; ".join(near), "Raise these limits in the policy (docs/policy.md), or ask the caller why.")
    return ok(_NAME, "nobody is near one")


def _shares(metrics: str) -> list[tuple[str, str, float]]:
    return [
        (sample.labels["caller"], sample.labels["limit"], sample.value)
        for family in text_string_to_metric_families(metrics)
        for sample in family.samples
        if sample.name == _SERIES
    ]
