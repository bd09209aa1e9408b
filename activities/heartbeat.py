"""Heartbeats of an activity. They distinguish a slow activity from a dead worker, and deliver cancellations."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import activity

from outlast.activities.failures.activity_failure import as_activity_failure

_DEFAULT_INTERVAL = timedelta(seconds=5)


class Heartbeats:
    """Sends heartbeats for the current activity, each with the latest details."""

    def __init__(self) -> None:
        """Start with the details of the previous attempt, so that a retry does not erase them."""
        self._details: tuple[object, ...] = tuple(activity.info().heartbeat_details)
        self._last_sent = time.monotonic()
        self._longest_silence = 0.0

    def send(self, *details: object) -> None:
        """Send a heartbeat now; `details`, when given, replace the details of this and all later heartbeats."""
        if details:
            self._details = details
        self._longest_silence = self.silence.total_seconds()
        self._last_sent = time.monotonic()
        activity.heartbeat(*self._details)

    def set_details(self, *details: object) -> None:
        """Send `details` with the next heartbeat and all later ones."""
        self._details = details

    @property
    def silence(self) -> timedelta:
        """The longest time between two heartbeats so far, the time since the last one included.

        A silence longer than the interval means that this process was suspended meanwhile.
        """
        return timedelta(seconds=max(self._longest_silence, time.monotonic() - self._last_sent))


@asynccontextmanager
async def heartbeating(share: float = 0.5) -> AsyncGenerator[Heartbeats]:
    """Send a heartbeat each time `share` of the activity's heartbeat timeout has passed, until the block ends.

    A block that is shorter than that sends none. When sending fails, the block is cancelled and the error is raised:
    without heartbeats Temporal would start a second attempt beside this one.
    """
    timeout = activity.info().heartbeat_timeout
    interval = timeout * share if timeout else _DEFAULT_INTERVAL
    heartbeats = Heartbeats()
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(_send_forever(heartbeats, interval))
            try:
                yield heartbeats
            finally:
                task.cancel()
    except BaseExceptionGroup as group_error:
        # One error alone ends the block: its own, or that of the heartbeats.
        raise group_error.exceptions[0] from None


async def _send_forever(heartbeats: Heartbeats, interval: timedelta) -> None:
    while True:
        await asyncio.sleep(interval.total_seconds())
        heartbeats.send()


@asynccontextmanager
async def activity_scope() -> AsyncGenerator[None]:
    """Send heartbeats, and turn every failure of the block into an `ApplicationError` with its `ErrorEnvelope`."""
    with as_activity_failure():
        async with heartbeating():
            yield
