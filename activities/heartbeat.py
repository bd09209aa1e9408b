"""Heartbeats of an activity. They distinguish a slow activity from a dead worker, and deliver cancellations."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta

from temporalio import activity
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory

from outlast.activities.failures.classify import as_activity_failure

_DEFAULT_INTERVAL = timedelta(seconds=5)
_HAND_OVER_DELAY = timedelta(milliseconds=100)
"""Pause before another worker may begin. A policy's own delay would grow with every worker that is stopped."""


class HandedOver(ApplicationError):
    """Ends an attempt whose worker stops or is dead. The next attempt continues on another worker."""

    def __init__(self, why: str = "The worker is stopping; another worker continues this.") -> None:
        super().__init__(
            why,
            type="HandedOver",
            next_retry_delay=_HAND_OVER_DELAY,
            category=ApplicationErrorCategory.BENIGN,
        )


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
        """The longest time between two heartbeats so far, the time since the last one included. A silence longer than
        the interval means that this process was suspended.
        """
        return timedelta(seconds=max(self._longest_silence, time.monotonic() - self._last_sent))


@asynccontextmanager
async def heartbeating(share: float = 0.5, *, hands_over: bool = False) -> AsyncGenerator[Heartbeats]:
    """Send a heartbeat each time `share` of the heartbeat timeout has passed, until the block ends. If sending fails,
    the block is cancelled and the error raised: without heartbeats Temporal would start a second attempt. With
    `hands_over`, the block is cancelled and `HandedOver` raised as soon as the worker begins to stop.
    """
    timeout = activity.info().heartbeat_timeout
    interval = timeout * share if timeout else _DEFAULT_INTERVAL
    heartbeats = Heartbeats()
    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(_send_forever(heartbeats, interval))]
            if hands_over:
                tasks.append(group.create_task(_hand_over()))
            try:
                yield heartbeats
            finally:
                for task in tasks:
                    task.cancel()
    except BaseExceptionGroup as group_error:
        # One error alone ends the block: its own, or that of the heartbeats.
        raise group_error.exceptions[0] from None


async def _send_forever(heartbeats: Heartbeats, interval: timedelta) -> None:
    while True:
        await asyncio.sleep(interval.total_seconds())
        heartbeats.send()


async def _hand_over() -> None:
    await activity.wait_for_worker_shutdown()
    raise HandedOver


@asynccontextmanager
async def activity_scope(*, hands_over: bool = False) -> AsyncGenerator[None]:
    """Send heartbeats, and turn every failure of the block into an `ApplicationError` with its `ErrorEnvelope`.
    `hands_over` as for `heartbeating`. Outside of an activity, see `worker.eager.read_ahead`, the block is left as it
    is: the activity that gets its result, or its failure, has a scope around it.
    """
    if not activity.in_activity():
        yield
        return
    with as_activity_failure():
        async with heartbeating(hands_over=hands_over):
            yield


def raise_cancellation(error: BaseException) -> None:
    """Raise `CancelledError` when the current task is being cancelled. For `WorkflowUpdateRPCTimeoutOrCancelledError`:
    Temporal's SDK raises it for a time-out, and in the place of the cancellation, which would be lost.
    """
    current = asyncio.current_task()
    if current is not None and current.cancelling():
        raise asyncio.CancelledError from error
