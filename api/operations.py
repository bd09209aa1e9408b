"""State of the server, its queues and its workers, from Temporal, for `outlast top` and for programs."""

import asyncio
import math
import time
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cachetools import TTLCache
from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import Client, WorkflowExecution

from outlast.api.access.limits.caller_limits import CallerSlots
from outlast.api.access.limits.rate_limits import Clock
from outlast.api.access.principal import Principal
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.visibility import ended_since, open_tasks_query, tasks_query
from outlast.contracts.operations import OpenTask, Operations, QueueState, TaskCounts, WorkerState
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import QUEUES, SCHEDULES_TASK_QUEUE, SERVERS_TASK_QUEUE, TOOLS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import TaskStatus

KEPT_SECONDS = 2
_SHARE_OF_TIME = 0.05
"""Most of the time that counting ended tasks may take: it slows Temporal's database as that grows."""
_LONGEST_KEPT_SECONDS = 60
_LISTED = 50
_ALL = ""
_MAX_CALLERS = 10_000


class OperationsReader:
    """Counts of tasks and descriptions of queues, cached for two seconds for each caller.

    Counts of ended tasks are cached longer if they took long, see `_SHARE_OF_TIME`.
    """

    def __init__(self, client: Client, clock: Clock = time.monotonic) -> None:
        self._client = client
        self._clock = clock
        self._slots = CallerSlots()
        self._kept: TTLCache[str, Operations] = TTLCache(_MAX_CALLERS, KEPT_SECONDS, timer=clock)
        self._ended: dict[str, tuple[float, tuple[int, ...]]] = {}
        """By caller: the time until which the counts are cached, and the counts."""

    async def read(self, principal: Principal) -> Operations:
        """Return everything with the scope `admin`, else the caller's own tasks. Raises `TemporalUnavailable`."""
        whose = _ALL if "admin" in principal.scopes else principal.caller.id
        async with self._slots.slot(principal.caller.id):
            if (kept := self._kept.get(whose)) is None:
                kept = self._kept[whose] = await self._count_all(whose or None)
            return kept

    async def count_open(self, caller_id: str) -> int:
        """Count the open tasks of a caller. Raises `TemporalUnavailable`."""
        with temporal_errors():
            return await self._count(open_tasks_query(caller_id))

    async def _count_all(self, caller_id: str | None) -> Operations:
        with temporal_errors():
            counts, tasks = await asyncio.gather(self._counts(caller_id), self._open_tasks(caller_id))
            served = ServedQueues((), ()) if caller_id is not None else await served_queues(self._client)
        return Operations(
            at=datetime.now(UTC),
            scope="all" if caller_id is None else "own",
            counts=counts,
            tasks=tasks,
            queues=served.queues,
            workers=served.workers,
        )

    async def _counts(self, caller_id: str | None) -> TaskCounts:
        of_open = (TaskStatus.QUEUED, TaskStatus.WORKING, TaskStatus.INPUT_REQUIRED)
        queries = [tasks_query(caller_id, status) for status in of_open]
        queries += [f"{tasks_query(caller_id, TaskStatus.COMPLETED)} AND ExecutionStatus = 'Running'"]
        names = ("queued", "working", "input_required", "answered", "completed_last_hour", "failed_last_hour")
        counts = await asyncio.gather(*map(self._count, queries))
        counts += await self._ended_last_hour(caller_id)
        return TaskCounts.model_validate(dict(zip((*names, "cancelled_last_hour"), counts, strict=True)))

    async def _ended_last_hour(self, caller_id: str | None) -> tuple[int, ...]:
        """Count the tasks that completed, failed and were cancelled."""
        whose, began = caller_id or _ALL, self._clock()
        until, counts = self._ended.get(whose, (-math.inf, ()))
        if began >= until:
            hour_ago = datetime.now(UTC) - timedelta(hours=1)
            of_ended = (TaskStatus.COMPLETED, TaskStatus.FAILED, TaskStatus.CANCELLED)
            queries = [ended_since(tasks_query(caller_id, status), hour_ago) for status in of_ended]
            counts = tuple(await asyncio.gather(*map(self._count, queries)))
            now = self._clock()
            still_kept = {known: entry for known, entry in self._ended.items() if now < entry[0]}
            kept_seconds = min((now - began) / _SHARE_OF_TIME, _LONGEST_KEPT_SECONDS)
            self._ended = {**still_kept, whose: (now + kept_seconds, counts)}
        return counts

    async def _count(self, query: str) -> int:
        return (await self._client.count_workflows(query)).count

    async def _open_tasks(self, caller_id: str | None) -> tuple[OpenTask, ...]:
        listed = self._client.list_workflows(open_tasks_query(caller_id), limit=_LISTED, page_size=_LISTED)
        tasks = [_open_task(execution) async for execution in listed]
        return tuple(task for task in tasks if task is not None)


def _open_task(execution: WorkflowExecution) -> OpenTask | None:
    found = execution.typed_search_attributes
    tool, caller = found.get(search_attributes.TOOL), found.get(search_attributes.CALLER)
    status = found.get(search_attributes.TASK_STATUS)
    if tool is None or caller is None or status is None:
        return None
    return OpenTask(
        id=execution.id,
        tool=tool,
        caller=caller,
        actor=found.get(search_attributes.ACTOR),
        status=TaskStatus(status),
        started_at=execution.start_time,
    )


_SERVED = (
    (TOOLS_TASK_QUEUE, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW),
    *(
        (queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)
        for queue in (*QUEUES.values(), SERVERS_TASK_QUEUE, SCHEDULES_TASK_QUEUE)
    ),
)
_DIGEST_CHARS = 12


@dataclass(frozen=True, slots=True)
class ServedQueues:
    """The queues in the order of `QUEUES`, workflows first, the one that APIs poll last; and the workers.

    The queue for MCP servers is there only if a worker polls it or something waits in it.
    """

    queues: tuple[QueueState, ...]
    workers: tuple[WorkerState, ...]


async def served_queues(client: Client) -> ServedQueues:
    """The current state of every queue. Raises `RPCError` when Temporal does not answer."""
    described = await asyncio.gather(*(_describe(client, queue, kind) for queue, kind in _SERVED))
    pollers = [
        (queue, poller)
        for (queue, _), found in zip(_SERVED, described, strict=True)
        if queue != SCHEDULES_TASK_QUEUE
        for poller in found.pollers
    ]
    queues = [_queue(queue, kind, found) for (queue, kind), found in zip(_SERVED, described, strict=True)]
    # An installation without MCP servers needs no worker for them.
    needed = tuple(one for one in queues if one.queue != SERVERS_TASK_QUEUE or one.pollers or one.backlog)
    return ServedQueues(needed, tuple(_workers(pollers)))


async def _describe(client: Client, queue: str, kind: TaskQueueType.ValueType) -> DescribeTaskQueueResponse:
    request = DescribeTaskQueueRequest(
        namespace=client.namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind, report_stats=True
    )
    return await client.workflow_service.describe_task_queue(request, retry=False)


def _queue(name: str, kind: TaskQueueType.ValueType, found: DescribeTaskQueueResponse) -> QueueState:
    stats = found.stats
    return QueueState(
        queue=name,
        kind="workflows" if kind == TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW else "activities",
        backlog=stats.approximate_backlog_count,
        oldest_seconds=stats.approximate_backlog_age.ToTimedelta().total_seconds(),
        added_per_second=stats.tasks_add_rate,
        taken_per_second=stats.tasks_dispatch_rate,
        pollers=len({poller.identity for poller in found.pollers}),
    )


def _workers(pollers: Iterable[tuple[str, PollerInfo]]) -> Iterable[WorkerState]:
    by_process: defaultdict[str, list[tuple[str, PollerInfo]]] = defaultdict(list)
    for queue, poller in pollers:
        by_process[poller.identity].append((queue, poller))
    for identity, served in sorted(by_process.items()):
        latest = max((poller for _, poller in served), key=lambda poller: poller.last_access_time.ToDatetime())
        yield WorkerState(
            identity=identity,
            version=_version(latest),
            queues=tuple(dict.fromkeys(queue for queue, _ in served)),
            last_seen_at=latest.last_access_time.ToDatetime().replace(tzinfo=UTC),
        )


def _version(poller: PollerInfo) -> str | None:
    digest = poller.worker_version_capabilities.build_id[:_DIGEST_CHARS]
    return poller.deployment_options.build_id or digest or None
