"""How long Temporal keeps ended tasks, compared with what refers to them."""

from collections.abc import Mapping
from datetime import timedelta

import httpx

from outlast.api.cli.checks.check import Check, ok, skip, warn
from outlast.api.settings import ApiSettings
from outlast.deploy.local.addresses import StackAddresses
from outlast.workflows.contracts.tool_calls import MAX_DEADLINE_SECONDS

_NAME = "Retention"
_TIMEOUT_SECONDS = 5


async def check_retention(addresses: StackAddresses | None) -> Check:
    """Ended tasks are kept at least as long as sessions, deadlines and stored outputs live."""
    if addresses is None or addresses.temporal_http_url is None:
        return skip(_NAME, "known for an embedded Temporal server only")
    kept = await _retention_of(addresses.temporal_http_url, addresses.temporal_namespace)
    if kept is None:
        return skip(_NAME, f"{addresses.temporal_http_url} does not say")
    longer = {what: lifetime for what, lifetime in _lifetimes().items() if lifetime > kept}
    if not longer:
        return ok(_NAME, f"ended tasks are kept for {_in_words(kept)}, as long as all that refers to them")
    names = ", ".join(f"{what} for {_in_words(lifetime)}" for what, lifetime in longer.items())
    days = -(-max(longer.values()) // timedelta(days=1))
    advice = f"Results and events end before what refers to them. Set OUTLAST_RETENTION_DAYS={days} and restart."
    return warn(_NAME, f"ended tasks are kept for {_in_words(kept)}; {names}", advice)


def _lifetimes() -> Mapping[str, timedelta]:
    return {
        "sessions live": ApiSettings().session_idle,
        "deadlines reach": timedelta(seconds=MAX_DEADLINE_SECONDS),
        "outputs are stored": timedelta(seconds=ApiSettings().output_ttl_seconds),
    }


async def _retention_of(http_url: str, namespace: str) -> timedelta | None:
    """The namespace's retention as Temporal's HTTP API says it (`"86400s"`), None without an answer."""
    try:
        async with httpx.AsyncClient(trust_env=False, timeout=_TIMEOUT_SECONDS) as client:
            answer = await client.get(f"{http_url}/api/v1/namespaces/{namespace}")
            answer.raise_for_status()
            return timedelta(seconds=float(answer.json()["config"]["workflowExecutionRetentionTtl"].rstrip("s")))
    except (httpx.HTTPError, KeyError, ValueError):
        return None


def _in_words(time: timedelta) -> str:
    days, hours = time.days, time.seconds // 3600
    return f"{days} days" if days > 1 else f"{days * 24 + hours} hours"
