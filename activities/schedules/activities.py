"""Activities of firings of schedules. The API runs `start_firing`, workers run the others."""

import asyncio
from datetime import timedelta
from typing import Protocol

from temporalio import activity
from temporalio.client import Client
from temporalio.common import RetryPolicy

from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.heartbeat import activity_scope
from outlast.activities.schedules.contracts import FiringEnd, FiringStart, PauseInput, Started, StartFiringInput
from outlast.activities.schedules.notes import NoteCode, written_note
from outlast.activities.workflow_requests import ignore_missing

START_ATTEMPT_TIMEOUT = timedelta(minutes=10)
"""A batch of a hundred thousand rows takes a minute or two to be read and checked."""
START_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
START_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
START_GRACE = timedelta(hours=1)
"""The time after the last moment of a start until the workflow gives it up: before, an attempt reports that it is
too late, and whether an earlier one has started something."""
AWAIT_TIMEOUT = timedelta(days=60)
"""Longer than anything that a schedule starts may take; heartbeats show that the wait is alive."""
AWAIT_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
QUICK_ATTEMPT_TIMEOUT = timedelta(seconds=30)
PATIENT_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
_PAUSE_LOOKS = 20
_LOOK_SECONDS = 0.25


class FiringStarter(Protocol):
    """Starts what is due. The API has one: it judges a firing as it judges a request of the caller."""

    async def start(self, request: StartFiringInput) -> FiringStart:
        """Start it, once for the firing, whatever was lost of earlier attempts. Raises for what may be gone when
        it is tried again.
        """
        ...


class StartedWork(Protocol):
    """Running tasks and batches. Every method raises `RPCError` if Temporal does not answer."""

    async def end_of(self, started: Started) -> FiringEnd:
        """Return the end of the work, as soon as it has ended."""
        ...

    async def cancel(self, started: Started) -> None:
        """Cancel the work, unless it has ended."""


class FiringStartActivities:
    """Has what is due started, in a process that can judge it."""

    def __init__(self, starter: FiringStarter) -> None:
        self._starter = starter

    @activity.defn
    async def start_firing(self, request: StartFiringInput) -> FiringStart:
        """Start the due work, at most once for the firing, or return the reason why nothing starts."""
        async with activity_scope(hands_over=True):
            return await self._starter.start(request)


class FiringActivities:
    """Awaits and cancels the work of a firing, and pauses its schedule."""

    def __init__(self, client: Client, work: StartedWork) -> None:
        self._client = client
        self._work = work

    @activity.defn
    async def await_firing(self, started: Started) -> FiringEnd:
        """Wait for the end of a firing's work. When its worker stops, another one continues to wait."""
        async with activity_scope(hands_over=True):
            return await self._work.end_of(started)

    @activity.defn
    async def cancel_firing(self, started: Started) -> None:
        """Cancel a firing's work; its end comes later."""
        with as_activity_failure():
            await self._work.cancel(started)

    @activity.defn
    async def pause_schedule(self, request: PauseInput) -> None:
        """Pause a schedule, and see that it is: of two changes at once, Temporal may keep the later one only. One that
        was deleted is left alone.
        """
        handle = self._client.get_schedule_handle(request.temporal_id)
        with as_activity_failure():
            note = await written_note(NoteCode.PAUSED_BY_FIRING, request.note, self._client.data_converter)
            with ignore_missing():
                for _ in range(_PAUSE_LOOKS):
                    await handle.pause(note=note)
                    if (await handle.describe()).schedule.state.paused:
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
                raise RuntimeError(f"The schedule {request.temporal_id} does not stay paused.")
