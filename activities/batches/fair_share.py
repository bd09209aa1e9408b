"""Fair share of a caller's concurrency for one batch, next to the caller's queued calls and other batches."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

from temporalio.client import Client

from outlast.activities.batches.contracts import BATCH_ATTRIBUTE, BATCH_WORKFLOW, BatchPlace
from outlast.activities.dispatch.contracts import queued_query

WAITING_FOR_RUNS = 12
"""Items of a batch that may wait for their run at a time: the account may be full, and single calls wait, too."""
_LOOK_SECONDS = 1.0
_RUNS_LOOK_SECONDS = 0.3
_LAG_SECONDS = 0.3
"""The delay until Temporal's lists show that a task was started."""


class FairShare:
    """Asks Temporal's lists what else the caller has at work, at most once a second."""

    def __init__(self, client: Client, place: BatchPlace, clock: Callable[[], float] = time.monotonic) -> None:
        self._client = client
        self._place = place
        self._clock = clock
        self._looked_at = float("-inf")
        self._runs_looked_at = float("-inf")
        self._most = 1
        self._without_run = 0
        self._starts: deque[float] = deque()

    async def free(self, running: int) -> int:
        """Return the number of items that may be started now, with `running` items at work."""
        if self._clock() - self._looked_at >= _LOOK_SECONDS:
            await self._look()
        if not self._place.starts_runs:
            return self._most - running
        if self._clock() - self._runs_looked_at >= _RUNS_LOOK_SECONDS:
            await self._look_for_runs()
        return min(self._most, WAITING_FOR_RUNS) - self._without_run - len(self._starts)

    def started(self) -> None:
        """One more item is being started."""
        if self._place.starts_runs:
            self._starts.append(self._clock())

    async def _look(self) -> None:
        began = self._clock()
        queued, batches = await asyncio.gather(
            self._count(queued_query(self._place.caller_id)),
            self._count(_batches_of(self._place.caller_id)),
        )
        self._most = part_of_share(self._place.share, queued=queued > 0, batches=batches)
        self._looked_at = began

    async def _look_for_runs(self) -> None:
        began = self._clock()
        self._without_run = await self._count(_waiting_items(self._place.batch_id))
        self._runs_looked_at = began
        while self._starts and self._starts[0] < began - _LAG_SECONDS:
            self._starts.popleft()

    async def _count(self, query: str) -> int:
        return (await self._client.count_workflows(query)).count


def part_of_share(share: int, *, queued: bool, batches: int) -> int:
    """Return the maximum number of concurrent items of a batch: a quarter of the share while calls are queued."""
    part = share // 4 if queued else share * 3 // 4
    return max(1, part // max(1, batches))


def _batches_of(caller_id: str) -> str:
    caller = caller_id.replace("\\", "\\\\").replace("'", "\\'")
    return f"WorkflowType = '{BATCH_WORKFLOW}' AND ExecutionStatus = 'Running' AND OutlastCaller = '{caller}'"


def _waiting_items(batch_id: str) -> str:
    """Items that have not started their run yet. Those that wait for a person start none for now."""
    of_batch = f"WorkflowType = 'ToolCallWorkflow' AND {BATCH_ATTRIBUTE} = '{batch_id}'"
    return f"{of_batch} AND ExecutionStatus = 'Running' AND OutlastTaskStatus = 'working' AND OutlastRunId IS NULL"
