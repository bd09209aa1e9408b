"""Checks of the Temporal namespace: search attributes, retention, queues, workers, certificate."""

import asyncio
import os
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from pydantic import ValidationError
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.stuck_tasks.assess import changed_tool, reported
from outlast.activities.stuck_tasks.contracts import TASK
from outlast.api.operations import served_queues
from outlast.api.settings import ApiSettings
from outlast.cli.checks import Check, fail, ok, skip, warn
from outlast.cli.checks.components import Surroundings
from outlast.cli.show.output import counted, duration
from outlast.contracts.operations import QueueState, WorkerState
from outlast.deploy.local.config import look_outside
from outlast.deploy.local.errors import StackError
from outlast.worker.connection import connect_plainly
from outlast.worker.search_attributes import missing_search_attributes
from outlast.workflows.contracts.queues import SCHEDULES_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import MAX_DEADLINE_SECONDS

_RETENTION = "Retention"


async def check_retention(client: Client, *, embedded: bool) -> Check:
    """Check that ended tasks are kept at least as long as sessions, deadlines and stored outputs.

    Raises `RPCError` if Temporal does not answer or does not have the namespace.
    """
    described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    kept = described.config.workflow_execution_retention_ttl.ToTimedelta()
    try:
        settings = ApiSettings()
    except ValidationError:
        return skip(_RETENTION, "the settings must be valid first")
    lifetimes = {
        "sessions live": settings.session_idle,
        "deadlines reach": timedelta(seconds=MAX_DEADLINE_SECONDS),
        "outputs are stored": timedelta(seconds=settings.output_ttl_seconds),
    }
    longer = {what: lifetime for what, lifetime in lifetimes.items() if lifetime > kept}
    if not longer:
        return ok(_RETENTION, f"ended tasks are kept for {in_words(kept)}, as long as everything that refers to them")
    names = ", ".join(f"{what} for {in_words(lifetime)}" for what, lifetime in longer.items())
    days = -(-max(longer.values()) // timedelta(days=1))
    how = (
        f"Set OUTLAST_RETENTION_DAYS={days} and restart." if embedded else f"`outlast admin setup --retention {days}d`."
    )
    return warn(
        _RETENTION,
        f"ended tasks are kept for {in_words(kept)}; {names}",
        f"Results and events expire before what refers to them. {how}",
    )


def in_words(time: timedelta) -> str:
    """Format a duration: `30 days`, `36 hours`."""
    days, hours = time.days, time.seconds // 3600
    return f"{days} days" if days > 1 else f"{days * 24 + hours} hours"


_TIMEOUT_SECONDS = 10
_SLOW_SECONDS = 60
_MAX_STUCK = 1_000
_MAX_READ = 20
"""Stuck tasks whose reason is read."""
_CHANGED_ADVICE = (
    "Restore the tools, or cancel the tasks: docs/runbooks/stuck-tasks.md#a-tool-of-open-calls-has-changed."
)
_EXPIRES_SOON = timedelta(days=14)
_CERTIFICATE = "TEMPORAL_TLS_CLIENT_CERT_PATH"
_NAMESPACE = "Temporal namespace"


async def check_namespace(around: Surroundings) -> list[Check]:
    """Make the checks that need a connection to Temporal; return one check if there is none."""
    embedded = around.state is not None and around.state.addresses.temporal_http_url is not None
    try:
        environment = _environment(around)
        if environment is None:
            return [skip(_NAMESPACE, "no TEMPORAL_ADDRESS, and no stack runs")]
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            client = await connect_plainly(environment)
            return [
                ok(_NAMESPACE, f"{client.namespace} at {client.service_client.config.target_host}"),
                await check_search_attributes(client),
                await check_retention(client, embedded=embedded),
                *await check_queues(client),
                await check_stuck(client),
            ]
    except TimeoutError:
        return [fail(_NAMESPACE, f"no answer within {_TIMEOUT_SECONDS} s", _CONNECTION_ADVICE)]
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            return [fail(_NAMESPACE, error.message, "Create it: `outlast admin setup`, or correct TEMPORAL_NAMESPACE.")]
        return [fail(_NAMESPACE, f"{error.status.name}: {error.message}", _CONNECTION_ADVICE)]
    except (RuntimeError, ValueError, OSError, StackError) as error:
        return [fail(_NAMESPACE, str(error).partition("\n")[0], _CONNECTION_ADVICE)]


_CONNECTION_ADVICE = "Check TEMPORAL_ADDRESS, TEMPORAL_NAMESPACE, and the API key or certificate (docs/cluster.md)."


async def check_search_attributes(client: Client) -> Check:
    """Check that the namespace has the search attributes of tasks, with the right types."""
    name = "Search attributes"
    try:
        missing = await missing_search_attributes(client)
    except RPCError as error:
        return skip(name, f"the server does not list them ({error.status.name})")
    if missing:
        return fail(
            name, f"missing or with another type: {', '.join(sorted(missing))}", "`outlast admin setup` adds them."
        )
    return ok(name, "complete")


async def check_queues(client: Client) -> list[Check]:
    """Check that every queue is served without a long backlog, and that all workers have one version."""
    served = await served_queues(client)
    return [_backlogs(served.queues), _versions(served.workers)]


async def check_stuck(client: Client) -> Check:
    """Check that no workflow fails in the same step repeatedly."""
    name, found, example, changes = "Stuck workflows", Counter[str](), "", list[str]()
    try:
        async for one in reported(client, limit=_MAX_STUCK):
            found[one.workflow_type] += 1
            is_read = one.workflow_type == TASK and found[TASK] <= _MAX_READ
            change = await changed_tool(client, one) if is_read else None
            if change is not None:
                changes.append(f"{change.partition('. ')[0]} ({one.id})")
            example = example or one.id
    except RPCError as error:
        return skip(name, f"the server does not list them ({error.status.name})")
    if not found:
        return ok(name, "none")
    kinds = ", ".join(f"{number} {kind}" for kind, number in found.most_common())
    if changes and len(changes) == found.total():
        return fail(name, f"{kinds}, whose tools have changed: {'; '.join(changes)}", _CHANGED_ADVICE)
    if changes:
        kinds = f"{kinds}, of which tools have changed: {'; '.join(changes)}"
    return fail(name, f"{kinds}; one is {example}", "Their code or data has a defect: docs/runbooks/stuck-tasks.md.")


def _backlogs(queues: tuple[QueueState, ...]) -> Check:
    name = "Queues"
    unserved = list(dict.fromkeys(queue.queue for queue in queues if not queue.pollers))
    of_workers = [queue for queue in unserved if queue != SCHEDULES_TASK_QUEUE]
    if of_workers:
        advice = "Start a worker that serves them (OUTLAST_QUEUES); their work waits until then."
        return fail(name, f"no worker serves {', '.join(of_workers)}", advice)
    if unserved:
        advice = "Start an API that reaches this namespace; what schedules start waits until then."
        return fail(name, f"no API serves {SCHEDULES_TASK_QUEUE}", advice)
    slow = [
        f"{queue.queue}: {queue.backlog:,} {queue.kind} wait, the first for {duration(queue.oldest_seconds)}"
        for queue in queues
        if queue.backlog and queue.oldest_seconds > _SLOW_SECONDS
    ]
    if slow:
        return warn(
            name, "; ".join(slow), "Add workers, or slots where processors are idle (docs/runbooks/workers.md)."
        )
    return ok(name, f"{sum(queue.backlog for queue in queues):,} waiting, none for more than a minute")


def _versions(workers: tuple[WorkerState, ...]) -> Check:
    name = "Worker versions"
    if not workers:
        return skip(name, "no worker polls for tasks")
    versions = Counter(worker.version or "unknown" for worker in workers)
    found = ", ".join(f"{version} ({number})" for version, number in versions.most_common())
    if len(versions) > 1:
        advice = "This is normal during an upgrade. Otherwise stop the old workers: `outlast top` names them."
        return warn(name, f"{counted(len(workers), 'worker')} of different versions: {found}", advice)
    return ok(name, f"{counted(len(workers), 'worker')}, version {found.rpartition(' ')[0]}")


def check_certificate(environment: Mapping[str, str], now: datetime | None = None) -> Check:
    """Check that the client certificate for Temporal does not expire soon."""
    name, path = "Certificate", environment.get(_CERTIFICATE)
    if not path:
        return skip(name, f"no {_CERTIFICATE}")
    try:
        ends = x509.load_pem_x509_certificate(Path(path).read_bytes()).not_valid_after_utc
    except (OSError, ValueError) as error:
        return fail(name, f"{path} cannot be read: {error}", f"{_CERTIFICATE} takes a certificate in PEM form.")
    left = ends - (now or datetime.now(UTC))
    advice = "Issue a new one, upload its CA if that is new too, and restart workers and APIs (docs/cluster.md)."
    if left <= timedelta(0):
        return fail(name, f"{path} expired on {ends:%F}", advice)
    if left < _EXPIRES_SOON:
        return warn(name, f"{path} expires on {ends:%F}", advice)
    return ok(name, f"{path}, until {ends:%F}")


def _environment(around: Surroundings) -> dict[str, str] | None:
    """Return the variables for a connection: those of the running stack, or of the user; None if there are none."""
    addresses = around.state.addresses if around.state else None
    if addresses is not None and addresses.temporal_address and addresses.temporal_http_url:
        plain = {name: value for name, value in around.environment.items() if not name.startswith("TEMPORAL_")}
        named = {"TEMPORAL_ADDRESS": addresses.temporal_address, "TEMPORAL_NAMESPACE": addresses.temporal_namespace}
        return {**plain, **named, "TEMPORAL_CONFIG_FILE": os.devnull}
    if look_outside(around.environment).temporal_address is None:
        return None
    return dict(around.environment)
