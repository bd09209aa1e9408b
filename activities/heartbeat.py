"""Heartbeating as a context manager: an activity stays known to be alive, and can be cancelled, while it waits."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import activity

from outlast.activities.failures.activity_failure import as_activity_failure

_DEFAULT_INTERVAL = timedelta(seconds=5)


class Heart:
    """Beats for the current activity, always with the latest details."""

    def __init__(self) -> None:
        """Start from the details the previous attempt left, so that a retry does not erase them."""
        self._details: tuple[object, ...] = tuple(activity.info().heartbeat_details)
        self._last_beat = time.monotonic()
        self._longest_silence = 0.0

    def beat(self, *details: object) -> None:
        """Report life now; `details`, when given, replace what is reported from here on."""
        if details:
            self._details = details
        self._longest_silence = self.silence.total_seconds()
        self._last_beat = time.monotonic()
        activity.heartbeat(*self._details)

    def carry(self, *details: object) -> None:
        """Report `details` from the next beat on."""
        self._details = details

    @property
    def silence(self) -> timedelta:
        """The longest time without a beat so far; the beat that follows a long silence does not hide it.

        Longer than the interval means that this process was stopped meanwhile.
        """
        return timedelta(seconds=max(self._longest_silence, time.monotonic() - self._last_beat))


@asynccontextmanager
async def heartbeating(share: float = 0.5) -> AsyncGenerator[Heart]:
    """Beat at this share of the activity's heartbeat time-out until the block ends; a shorter block costs none."""
    timeout = activity.info().heartbeat_timeout
    interval = timeout * share if timeout else _DEFAULT_INTERVAL
    heart = Heart()
    task = asyncio.create_task(_beat_forever(heart, interval))
    try:
        yield heart
    finally:
        task.cancel()


async def _beat_forever(heart: Heart, interval: timedelta) -> None:
    while True:
        await asyncio.sleep(interval.total_seconds())
        heart.beat()


@asynccontextmanager
async def reading() -> AsyncGenerator[None]:
    """Failures become envelopes, and heartbeats tell a slow answer from a worker that has died."""
    with as_activity_failure():
        async with heartbeating():
            yield
