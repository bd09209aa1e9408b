"""Checks that the API can make of itself and of its Temporal namespace: rows of `outlast doctor` and `/v1/health`."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest
from temporalio.client import Client
from temporalio.service import RPCError

from outlast.activities.stuck_tasks.assess import changed_tool, reported
from outlast.activities.stuck_tasks.contracts import TASK
from outlast.api.operations import served_queues
from outlast.api.services import Services
from outlast.api.settings import ApiSettings
from outlast.contracts.checks import Check, fail, ok, skip, warn
from outlast.contracts.operations import QueueState, WorkerState
from outlast.wording import counted, duration
from outlast.worker.search_attributes import missing_search_attributes
from outlast.workflows.contracts.queues import SCHEDULES_TASK_QUEUE, SERVERS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import MAX_DEADLINE_SECONDS

_RETENTION = "Retention"
_SLOW_SECONDS = 60
_MAX_STUCK = 1_000
_MAX_READ = 20
"""Stuck tasks whose reason is read."""
_CHANGED_ADVICE = (
    "Restore the tools, or cancel the tasks: docs/runbooks/stuck-tasks.md#a-tool-of-open-calls-has-changed."
)
_TIMEOUT_SECONDS = 10
_EXPIRES_SOON = timedelta(days=14)
_NEAR = 0.8
"""Share of a limit from which a caller is near it."""


async def checks_of_the_api(services: Services) -> Sequence[Check]:
    """The checks of the parts that the API reaches, as `outlast doctor` makes them."""
    return [
        *await _of_namespace(services.client, services.settings),
        await _check_disks(services),
        _check_policy(services),
        _check_expiry(services),
        _check_limits(services),
        *await _check_servers(services),
    ]


async def _of_namespace(client: Client, settings: ApiSettings) -> list[Check]:
    name = "Temporal namespace"
    try:
        async with asyncio.timeout(_TIMEOUT_SECONDS):
            return [
                ok(name, client.namespace),
                await check_search_attributes(client),
                await check_retention(client, settings, embedded=settings.instance_id is not None),
                *await check_queues(client),
                await check_stuck(client),
            ]
    except TimeoutError:
        return [fail(name, f"no answer within {_TIMEOUT_SECONDS} s", "Check the Temporal server and its database.")]
    except (RPCError, RuntimeError) as error:
        return [fail(name, str(error).partition("\n")[0], "Check the Temporal server and its database.")]


async def _check_disks(services: Services) -> Check:
    name = "Disk space"
    if await services.disks.have_room(timeout_seconds=3):
        return ok(name, "more than the reserve is free")
    return fail(name, "a disk has less free space than its reserve", "Free space: docs/operators.md#a-full-disk.")


def _check_policy(services: Services) -> Check:
    name, source = "Policy in force", services.policy
    if not source.has_file:
        return ok(name, "there is no policy file; the settings apply")
    if source.problems:
        return fail(
            name,
            f"the current policy file is rejected, and the previous one used: {'; '.join(source.problems)}",
            "Correct or restore the file before you restart the API.",
        )
    if source.weak_points:
        return warn(name, "; ".join(source.weak_points), "See docs/policy.md.")
    return ok(name, "as in the policy file")


def _check_expiry(services: Services) -> Check:
    name, now = "Keys and certificates", datetime.now(UTC)
    ends = {
        "an API key": services.policy.current.next_key_end(),
        "the certificate for Temporal": services.certificate_end,
    }
    soon = [
        f"{what} expires in {in_words(end - now)}" for what, end in ends.items() if end and end - now < _EXPIRES_SOON
    ]
    if soon:
        return warn(name, "; ".join(soon), "Replace it before that: docs/policy.md, docs/cluster.md.")
    return ok(name, f"none expires within {_EXPIRES_SOON.days} days")


def _check_limits(services: Services) -> Check:
    name = "Limits"
    near = [
        f"{caller} uses {share:.0%} of {limit}"
        for part in services.limits_used
        for caller, used in part.items()
        for limit, share in used.items()
        if share >= _NEAR
    ]
    if near:
        advice = "Raise these limits in the policy (docs/policy.md), or ask the caller for the reason."
        return warn(name, "; ".join(near[:20]), advice)
    return ok(name, "no caller is near a limit at this API process")


async def _check_servers(services: Services) -> list[Check]:
    if services.server_tools is None:
        return []
    rows = [
        fail(
            f"MCP server {one.server}",
            one.error or "it does not answer",
            "Check its entry in the servers file, and the log of the worker.",
        )
        if one.state == "down"
        else ok(f"MCP server {one.server}", f"{one.state}, {counted(one.tools, 'tool')}")
        for one in await services.server_tools.statuses()
    ]
    problem = services.server_tools.problem
    return [
        *rows,
        *([fail("MCP servers file", problem, "Correct the file; the last good one is used.")] if problem else []),
    ]


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


async def check_retention(client: Client, settings: ApiSettings, *, embedded: bool) -> Check:
    """Check that ended tasks are kept at least as long as sessions, deadlines and stored outputs.

    Raises `RPCError` if Temporal does not answer or does not have the namespace.
    """
    described = await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=client.namespace))
    kept = described.config.workflow_execution_retention_ttl.ToTimedelta()
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
    if of_workers == [SERVERS_TASK_QUEUE]:
        advice = "Start a worker with OUTLAST_MCP_SERVERS_FILE; calls of MCP servers wait until then."
        return fail(name, f"no worker with a file of MCP servers serves {SERVERS_TASK_QUEUE}", advice)
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
