"""Activities of batches: carry a round out, prepare a retry or a resume, and close the results."""

import asyncio
from collections.abc import Callable, Sequence
from datetime import timedelta

from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.batches.contracts import (
    BatchPlace,
    BatchState,
    CloseInput,
    LegInput,
    RoundInput,
)
from outlast.activities.batches.items import ItemList, LineWriter, written_lines
from outlast.activities.batches.results import ResultsWriter, RetriedItems
from outlast.activities.batches.round import BatchRoom, ItemTasks, Round
from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.heartbeat import heartbeating
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
        room: Callable[[BatchPlace], BatchRoom],
        *,
        namespace: str,
    ) -> None:
        """Keep items and rows in `objects`; `room` says how many items of a batch may be at work."""
        self._objects = objects
        self._tasks = tasks
        self._room = room
        self._namespace = namespace

    @activity.defn
    async def carry_on_batch(self, request: RoundInput) -> BatchState:
        """Start items and await them, or end those under way; returns the state of the batch.

        The heartbeat details are the state as of the rows that are written; another attempt goes on from there. When
        the batch is cancelled, the round ends at once, with the items under way in its state. When its worker is told
        to stop, another one goes on.
        """
        with as_activity_failure():
            info = activity.info()
            if info.attempt > 1:
                request = _continued(request, info.heartbeat_details)
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
    async def prepare_batch_leg(self, request: LegInput) -> BatchState:
        """Take the rows of the items that run again out of the results; returns the state in which they are to run."""
        with as_activity_failure():
            async with heartbeating():
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
    async def close_batch(self, request: CloseInput) -> None:
        """Describe the results: there will be no more rows for now."""
        with as_activity_failure():
            async with heartbeating():
                await self._results(request.place, request.state).close()

    def _results(self, place: BatchPlace, state: BatchState) -> ResultsWriter:
        return ResultsWriter(self._objects, place, state.results, namespace=self._namespace)


def _continued(request: RoundInput, details: Sequence[object]) -> RoundInput:
    """The request as an earlier attempt has left it."""
    return request.model_copy(update={"state": BatchState.model_validate(details[0])}) if details else request


def _is_asked_to_stop() -> bool:
    """Whether the batch was cancelled, and not the worker stopped."""
    details = activity.cancellation_details()
    return details is not None and details.cancel_requested
