"""How long Temporal keeps ended tasks, compared with what refers to them."""

from collections.abc import Mapping
from datetime import timedelta

from pydantic import ValidationError
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client

from outlast.api.settings import ApiSettings
from outlast.cli.checks.check import Check, ok, skip, warn
from outlast.workflows.contracts.tool_calls import MAX_DEADLINE_SECONDS

_NAME = "Retention"


async def check_retention(client: Client, *, embedded: bool) -> Check:
    """Ended tasks are kept at least as long as sessions, deadlines and stored outputs live.

    Raises `RPCError` when Temporal does not answer, or has no such namespace.
    """
    described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    kept = described.config.workflow_execution_retention_ttl.ToTimedelta()
    try:
        lifetimes = _lifetimes(ApiSettings())
    except ValidationError:
        return skip(_NAME, "the settings have to be right first")
    longer = {what: lifetime for what, lifetime in lifetimes.items() if lifetime > kept}
    if not longer:
        return ok(_NAME, f"ended tasks are kept for {in_words(kept)}, as long as all that refers to them")
    names = ", ".join(f"{what} for {in_words(lifetime)}" for what, lifetime in longer.items())
    days = -(-max(longer.values()) // timedelta(days=1))
    how = (
        f"Set OUTLAST_RETENTION_DAYS={days} and restart." if embedded else f"`outlast admin setup --retention {days}d`."
    )
    return warn(
        _NAME,
        f"ended tasks are kept for {in_words(kept)}; {names}",
        f"Results and events end before what refers to them. {how}",
    )


def _lifetimes(settings: ApiSettings) -> Mapping[str, timedelta]:
    return {
        "sessions live": settings.session_idle,
        "deadlines reach": timedelta(seconds=MAX_DEADLINE_SECONDS),
        "outputs are stored": timedelta(seconds=settings.output_ttl_seconds),
    }


def in_words(time: timedelta) -> str:
    """`30 days`, `36 hours`."""
    days, hours = time.days, time.seconds // 3600
    return f"{days} days" if days > 1 else f"{days * 24 + hours} hours"
