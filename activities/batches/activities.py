"""Activities of batches: carry a round out, prepare a retry or a resume, and close the results."""

import asyncio
from collections.abc import Callable
from datetime import timedelta

from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.batches import contracts as batches
from outlast.activities.batches.items import ItemList, LineWriter, written_lines
from outlast.activities.batches.results import ResultsWriter, RetriedItems
from outlast.activities.batches.round import BatchRoom, ItemTasks, Round
from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.heartbeat import activity_scope, heartbeating
from outlast.activities.object_store.objects import OutputObjects

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
