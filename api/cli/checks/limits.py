"""Who is near a limit, as the API tells in its metrics."""

import httpx
from prometheus_client.parser import text_string_to_metric_families

from outlast.api.cli.checks.check import Check, ok, skip, warn
from outlast.api.cli.options import Options
from outlast.client import ConnectionFailed, find_connection

_NAME = "Limits"
_SERIES = "outlast_limit_near_ratio"
_NEAR = 0.8
_TIMEOUT_SECONDS = 5


async def check_limits(options: Options) -> Check:
    """No caller is near a limit of the policy. Each API process tells of itself."""
    try:
        url = find_connection(options.url, options.token, options.data_dir, environment={}).url
        on_this_machine = httpx.URL(url).host in ("127.0.0.1", "::1", "localhost")
        async with httpx.AsyncClient(trust_env=not on_this_machine, timeout=_TIMEOUT_SECONDS) as http:
            answer = await http.get(f"{url.rstrip('/')}/metrics")
    except (ConnectionFailed, httpx.HTTPError):
        return skip(_NAME, "the API does not answer")
    if not answer.is_success or _SERIES not in answer.text:
        return skip(_NAME, "the API shows no metrics here")
    near = [f"{caller} uses {share:.0%} of {limit}" for caller, limit, share in _shares(answer.text) if share >= _NEAR]
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
