"""The activity that releases queued tasks. The tasks themselves, as Temporal lists them, are the queue."""

import asyncio
import time
from collections import deque
from contextlib import suppress
from datetime import datetime, timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.common import RetryPolicy, WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError

from outlast.activities.dispatch import contracts as dispatch
from outlast.activities.heartbeat import activity_scope

ROUND = timedelta(minutes=2)
"""The time that one activity releases tasks. The next one has the limits of the latest request."""
LINGER = timedelta(minutes=1)
"""The time without queued tasks after which a dispatcher ends. The API signals it before it queues a task, so the task
has that long to appear in Temporal's lists.
"""
DISPATCH_ATTEMPT_TIMEOUT = ROUND + timedelta(minutes=5)
DISPATCH_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
DISPATCH_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=10))

_FULL_PAUSE_SECONDS = 0.25
_LONGEST_FULL_PAUSE_SECONDS = 2.0
"""While no task can be released, pauses grow to this time: tasks may work for hours, and each look counts them all."""
_EMPTY_PAUSE_SECONDS = 1.0
_PAGE = 1_000


class DispatchActivities:
    """Releases queued tasks, in the order of their starts."""

    def __init__(self, client: Client, *, task_queue: str) -> None:
        self._client = client
        self._task_queue = task_queue

    @activity.defn
    async def release_queued(self, request: dispatch.DispatchInput) -> bool:
        """Release the caller's queued tasks for a while. Returns whether it can end: nothing was queued for long. An
        attempt that begins in the middle of another's work sees the tasks which that one released last as queued still;
        it releases them again, which changes nothing, before any others.
        """
        async with activity_scope(hands_over=True):
            queue = CallerQueue(self._client, request, self._task_queue)
            began = busy_at = time.monotonic()
            pause = _FULL_PAUSE_SECONDS
            while (now := time.monotonic()) - began < ROUND.total_seconds():
                released_before = queue.released
                if await queue.release():
                    busy_at = now
                    pause = next_pause_seconds(pause, has_released=queue.released > released_before)
                    await asyncio.sleep(pause)
                elif now - busy_at > LINGER.total_seconds():
                    return True
                else:
                    await asyncio.sleep(_EMPTY_PAUSE_SECONDS)
            return False


def next_pause_seconds(pause: float, *, has_released: bool) -> float:
    """Return the pause before the next look at a share, after one of `pause` seconds."""
    return _FULL_PAUSE_SECONDS if has_released else min(pause * 1.25, _LONGEST_FULL_PAUSE_SECONDS)


class CallerQueue:
    """The queued tasks of one caller, as one process sees them."""

    def __init__(self, client: Client, request: dispatch.DispatchInput, task_queue: str) -> None:
        """Release tasks to `task_queue`, as many at once as `request` allows."""
        self._client = client
        self._task_queue = task_queue
        self._request = request
        self._waiting: deque[tuple[datetime, str]] = deque()
        self._released: set[str] = set()
        self._released_through: datetime | None = None
        self.released = 0
        """The number of tasks released so far."""

    async def release(self) -> bool:
        """Release the next tasks, as many as fit into the share. Returns whether any were queued. Raises `RPCError`
        when Temporal does not answer.
        """
        if not self._waiting:
            await self._list()
        if not self._waiting:
            return bool(self._released)
        room = self._request.share - await self._count()
        # Tasks that started in the same instant are released together: the count does not show which was released.
        while self._waiting and (room > 0 or self._waiting[0][0] == self._released_through):
            started_at, task_id = self._waiting.popleft()
            await self._signal(task_id)
            self._released.add(task_id)
            self.released += 1
            self._released_through = started_at
            room -= 1
        return True

    async def _list(self) -> None:
        """All queued tasks, the first one first. Temporal's lists begin with the last one."""
        query = dispatch.queued_query(self._request.caller_id)
        found = [(one.start_time, one.id) async for one in self._client.list_workflows(query, page_size=_PAGE)]
        # Lists lag behind: what was released a moment ago is still in them.
        self._released &= {task_id for _, task_id in found}
        self._waiting.extend(sorted(one for one in found if one[1] not in self._released))

    async def _count(self) -> int:
        query = dispatch.counting_query(self._request.caller_id, released_through=self._released_through)
        return (await self._client.count_workflows(query)).count

    async def _signal(self, task_id: str) -> None:
        """End the delay of a task's start. Only a signal with a start does so; a signal alone is kept for later."""
        # Lists lag behind: a task that was cancelled is left alone, and of one that was deleted only a
        # workflow remains that ends at once.
        with suppress(WorkflowAlreadyStartedError):
            await self._client.start_workflow(
                dispatch.NOTHING_TO_RELEASE_WORKFLOW,
                id=task_id,
                task_queue=self._task_queue,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
                start_signal=dispatch.RELEASE_SIGNAL,
            )
