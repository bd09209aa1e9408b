"""Activities of firings of schedules. The API runs `start_firing`, workers run the others."""

import asyncio
from datetime import timedelta
from typing import Protocol

from temporalio import activity
from temporalio.client import Client
from temporalio.common import RetryPolicy
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.failures.activity_failure import as_activity_failure
from outlast.activities.heartbeat import heartbeating
from outlast.activities.schedules.contracts import FiringEnd, FiringStart, PauseInput, Started, StartFiringInput
from outlast.activities.schedules.notes import NoteCode, written_note

START_ATTEMPT_TIMEOUT = timedelta(minutes=10)
"""A batch of a hundred thousand rows takes a minute or two to be read and checked."""
START_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
START_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
START_GRACE = timedelta(hours=1)
"""How long after the last moment of a start the workflow gives it up: until then, an attempt says itself that it is
too late, and knows whether one before it has started something."""
AWAIT_TIMEOUT = timedelta(days=60)
"""Longer than anything that a schedule starts may take; who waits is known to live by its heartbeats."""
AWAIT_HEARTBEAT_TIMEOUT = timedelta(seconds=15)
QUICK_ATTEMPT_TIMEOUT = timedelta(seconds=30)
PATIENT_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=30))
_PAUSE_LOOKS = 20
_LOOK_SECONDS = 0.25


class FiringStarter(Protocol):
    """Starts what is due. The API has one: it judges a firing as it judges a request of the caller."""

    async def start(self, request: StartFiringInput) -> FiringStart:
        """Have it started, once for the firing, whatever was lost of earlier attempts.

        Raises for what may be gone when it is tried again.
        """
        ...


class StartedWork(Protocol):
    """Tasks and batches that are under way. Every method raises `RPCError` when Temporal does not answer."""

    async def end_of(self, started: Started) -> FiringEnd:
        """How it has ended, as soon as it has."""
        ...

    async def cancel(self, started: Started) -> None:
        """Have it cancelled, unless it has ended."""
        ...


class FiringStartActivities:
    """Has what is due started, in a process that can judge it."""

    def __init__(self, starter: FiringStarter) -> None:
        """Start with `starter`."""
        self._starter = starter

    @activity.defn
    async def start_firing(self, request: StartFiringInput) -> FiringStart:
        """Have what is due started, at most once for the firing; or say why nothing is."""
        with as_activity_failure():
            async with heartbeating(hands_over=True):
                return await self._starter.start(request)


class FiringActivities:
    """What else a firing needs: the end of what it has started, and its schedule paused."""

    def __init__(self, client: Client, work: StartedWork) -> None:
        """Pause schedules with `client`; `work` knows tasks and batches."""
        self._client = client
        self._work = work

    @activity.defn
    async def await_firing(self, started: Started) -> FiringEnd:
        """Wait for the end of what a firing has started. When its worker is told to stop, another one waits on."""
        with as_activity_failure():
            async with heartbeating(hands_over=True):
                return await self._work.end_of(started)

    @activity.defn
    async def cancel_firing(self, started: Started) -> None:
        """Have what a firing has started cancelled; its end comes later."""
        with as_activity_failure():
            await self._work.cancel(started)

    @activity.defn
    async def pause_schedule(self, request: PauseInput) -> None:
        """Pause a schedule, and see that it is: of two changes at once, Temporal may keep the later one only.

        One that was deleted meanwhile is left alone.
        """
        handle = self._client.get_schedule_handle(request.temporal_id)
        with as_activity_failure():
            note = await written_note(NoteCode.PAUSED_BY_FIRING, request.note, self._client.data_converter)
            try:
                for _ in range(_PAUSE_LOOKS):
                    await handle.pause(note=note)
                    if (await handle.describe()).schedule.state.paused:
                        return
                    await asyncio.sleep(_LOOK_SECONDS)
            except RPCError as error:
                if error.status is not RPCStatusCode.NOT_FOUND:
                    raise
                return
            raise RuntimeError(f"The schedule {request.temporal_id} does not stay paused.")
