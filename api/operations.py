"""State of the server, from Temporal's visibility and task queues, for `outlast top` and for programs."""

import asyncio
import math
import time
from datetime import UTC, datetime, timedelta

from cachetools import TTLCache
from temporalio.client import Client, WorkflowExecution

from outlast.api.access.limits.caller_slots import CallerSlots
from outlast.api.access.limits.rate_limits import Clock
from outlast.api.access.principal import Principal
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.queue_states import ServedQueues, served_queues
from outlast.api.temporal.visibility import ended_since, open_tasks_query, tasks_query
from outlast.contracts.operations import OpenTask, Operations, TaskCounts
from outlast.workflows.contracts import search_attributes
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
