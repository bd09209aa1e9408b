"""Quick reads as local activities, within their workflow's task, which saves Temporal four writes of five. An attempt
that takes long, or for which there is no room, ends with `GoesOver`, and a normal activity takes over. Starts of runs
use the same room with their own limit, see `activities.runs.starts`.
"""

import asyncio
from collections import Counter
from collections.abc import Generator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, Final, Literal, Protocol, runtime_checkable

from pydantic import Field
from temporalio import activity
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, ApplicationErrorCategory
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from outlast.activities.contracts import Caller, Contract

LOCAL_READ_TIMEOUT = timedelta(seconds=2)
"""The time limit of a local attempt. Temporal gives the workflow task that it keeps 10 seconds."""
LOCAL_READ_LIMIT = timedelta(seconds=4)
"""The time after which Temporal's SDK gives up the attempt. Only a worker whose event loop is blocked reaches it."""
LOCAL_READ_RETRY_POLICY = RetryPolicy(maximum_attempts=1)
GOES_OVER: Final = "GoesOver"
"""Type of the failure with which a local attempt makes room for a normal activity."""

_SHARE_OF_ONE_CALLER = 2
"""One caller may have one in so many of the local reads of a worker."""

_Outcome = Literal["answered", "failed", "slow", "crowded"]


class WentOver(Contract):
    """Details of a `GoesOver`."""

    may_have_acted: bool = Field(
        description="Whether the attempt may have had an effect that the next attempt must look for."
    )


class GoesOver(ApplicationError):
    """Ends a local attempt. It is no failure: a normal activity does the same."""

    def __init__(self, why: Literal["slow", "crowded"], *, may_have_acted: bool = False) -> None:
        self.why: Literal["slow", "crowded"] = why
        super().__init__(
            f"A normal activity does this instead: {why}.",
            WentOver(may_have_acted=may_have_acted),
            type=GOES_OVER,
            non_retryable=True,
            category=ApplicationErrorCategory.BENIGN,
        )


@runtime_checkable
class _TakesLonger(Protocol):
    """A request that is not a read, with its own limit."""

    @property
    def local_limit(self) -> timedelta: ...

    @property
    def may_have_acted(self) -> bool:
        """An earlier attempt may have changed something."""
        ...


@runtime_checkable
class _OfCaller(Protocol):
    """A request on behalf of a caller."""

    @property
    def caller(self) -> Caller: ...


class LocalReads(Interceptor):
    """Bounds the local reads of one worker, of all callers and of each, so that no workflow task waits for them. What
    finds no room is not queued: it becomes a normal activity at once.
    """

    def __init__(self, slots: int) -> None:
        """Allow `slots` concurrent local reads; half of them, rounded up, for one caller."""
        self._slots = slots
        self._slots_of_one = -(-slots // _SHARE_OF_ONE_CALLER)
        self._reading: Counter[str] = Counter()

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 (the SDK's name)
        """Bound the local attempts among a worker's activities."""
        return _Bounded(next, self)

    @contextmanager
    def room(self, caller_id: str, *, may_have_acted: bool = False) -> Generator[None]:
        """Take a slot for the block. Raises `GoesOver` when there is none for this caller."""
        if self._reading.total() >= self._slots or self._reading[caller_id] >= self._slots_of_one:
            raise GoesOver("crowded", may_have_acted=may_have_acted)
        self._reading[caller_id] += 1
        try:
            yield
        finally:
            self._reading[caller_id] -= 1
            self._reading += Counter()  # Forgets callers who read nothing.


class _Bounded(ActivityInboundInterceptor):
    def __init__(self, inner: ActivityInboundInterceptor, reads: LocalReads) -> None:
        super().__init__(inner)
        self._reads = reads

    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 (the SDK's name)
        if not activity.info().is_local:
            return await super().execute_activity(input)
        request = input.args[0] if input.args else None
        if isinstance(request, _TakesLonger):
            with self._reads.room(_caller_of(input), may_have_acted=request.may_have_acted):
                return await self._within_time(input, request.local_limit)
        try:
            with self._reads.room(_caller_of(input)):
                result = await self._within_time(input, LOCAL_READ_TIMEOUT)
        except GoesOver as over:
            _count(over.why)
            raise
        except Exception:
            _count("failed")
            raise
        _count("answered")
        return result

    async def _within_time(self, input: ExecuteActivityInput, limit: timedelta) -> Any:  # noqa: A002 (the SDK's name)
        time = asyncio.timeout(limit.total_seconds())
        try:
            async with time:
                return await super().execute_activity(input)
        except TimeoutError:
            if time.expired():
                raise GoesOver("slow", may_have_acted=True) from None
            raise


def _caller_of(call: ExecuteActivityInput) -> str:
    request = call.args[0] if call.args else None
    return request.caller.id if isinstance(request, _OfCaller) else ""


def _count(outcome: _Outcome) -> None:
    counter = activity.metric_meter().create_counter("outlast_local_reads", "Reads as local activities, by outcome.")
    counter.add(1, {"outcome": outcome})
