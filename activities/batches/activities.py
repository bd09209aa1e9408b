"""Activities of batches: run a round, prepare a retry, close the results. Also: a batch's fair share of concurrency."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta

from temporalio import activity
from temporalio.client import Client
from temporalio.common import RetryPolicy

from outlast.activities.batches import contracts as batches
from outlast.activities.batches.contracts import BATCH_ATTRIBUTE, BATCH_WORKFLOW, BatchPlace
from outlast.activities.batches.round import BatchRoom, ItemTasks, Round
from outlast.activities.batches.storage import ItemList, LineWriter, ResultsWriter, RetriedItems, written_lines
from outlast.activities.dispatch.contracts import queued_query
from outlast.activities.failures.classify import as_activity_failure
from outlast.activities.heartbeat import activity_scope, heartbeating
from outlast.activities.object_store import OutputObjects

ROUND_ATTEMPT_TIMEOUT = timedelta(hours=1)
ROUND_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
ROUND_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
RESULTS_ATTEMPT_TIMEOUT = timedelta(hours=1)
RESULTS_HEARTBEAT_TIMEOUT = timedelta(seconds=30)
_BEATS = 0.2
"""Interval of the heartbeats, as a share of their time-out: with them come cancellations."""


class BatchActivities:
    """Carries out what the workflows of batches decide."""

    def __init__(
        self,
        objects: OutputObjects,
        tasks: ItemTasks,
        room: Callable[[batches.BatchPlace], BatchRoom],
        *,
        namespace: str,
    ) -> None:
        self._objects = objects
        self._tasks = tasks
        self._room = room
        self._namespace = namespace

    @activity.defn
    async def carry_on_batch(self, request: batches.RoundInput) -> batches.BatchState:
        """Start items and await them, or end running ones; returns the state of the batch. The heartbeat details are
        the state as of the rows that are written; another attempt continues from there. When the batch is cancelled,
        the round ends at once, with the running items in its state. When its worker stops, another one continues.
        """
        with as_activity_failure():
            info = activity.info()
            if info.attempt > 1 and info.heartbeat_details:
                state = batches.BatchState.model_validate(info.heartbeat_details[0])
                request = request.model_copy(update={"state": state})
            timeout = info.heartbeat_timeout or ROUND_HEARTBEAT_TIMEOUT
            async with heartbeating(_BEATS, hands_over=True) as heartbeats:
                current = Round(
                    request,
                    ItemList(self._objects, request.place, request.state, namespace=self._namespace),
                    self._tasks,
                    self._results(request.place, request.state),
                    self._room(request.place),
                    heartbeats,
                    heartbeat_timeout=timeout,
                )
                try:
                    return await current.carry_on(looks_back=request.looks_back or info.attempt > 1)
                except asyncio.CancelledError:
                    await current.settle()
                    if not _is_asked_to_stop():
                        raise
                    return current.state

    @activity.defn
    async def prepare_batch_leg(self, request: batches.LegInput) -> batches.BatchState:
        """Take the rows of the items that run again out of the results; returns the state in which they are to run."""
        async with activity_scope():
            old = self._results(request.place, request.state)
            again, new = RetriedItems(request, old), old.after()
            async for rows in again.kept():
                await new.append(rows, publish=False)
            await new.publish()
            writer = LineWriter(self._objects, namespace=self._namespace, batch_id=request.place.batch_id)
            items = ItemList(self._objects, request.place, request.state, namespace=self._namespace)
            plan = await written_lines(writer, again.planned(items))
            return again.state_with(plan, results=new.state)

    @activity.defn
    async def close_batch(self, request: batches.CloseInput) -> None:
        """Describe the results: there will be no more rows for now."""
        async with activity_scope():
            await self._results(request.place, request.state).close()

    def _results(self, place: batches.BatchPlace, state: batches.BatchState) -> ResultsWriter:
        return ResultsWriter(self._objects, place, state.results, namespace=self._namespace)


def _is_asked_to_stop() -> bool:
    """Return True if the batch was cancelled, False if the worker stops."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested


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
