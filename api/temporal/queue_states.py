"""Temporal's task queues and their workers, from `DescribeTaskQueue`."""

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import PollerInfo, TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, DescribeTaskQueueResponse
from temporalio.client import Client

from outlast.contracts.operations import QueueState, WorkerState
from outlast.workflows.contracts.queues import QUEUES, SCHEDULES_TASK_QUEUE, TOOLS_TASK_QUEUE

_SERVED = (
    (TOOLS_TASK_QUEUE, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW),
    *((queue, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY) for queue in (*QUEUES.values(), SCHEDULES_TASK_QUEUE)),
)
_DIGEST_CHARS = 12


@dataclass(frozen=True, slots=True)
class ServedQueues:
    """The queues in the order of `QUEUES`, workflows first, the one that APIs poll last; and the workers."""

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
    queues = tuple(_queue(queue, kind, found) for (queue, kind), found in zip(_SERVED, described, strict=True))
    return ServedQueues(queues, tuple(_workers(pollers)))


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
