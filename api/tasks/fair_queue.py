"""Fair queueing: tasks of a caller beyond its concurrency limit wait until earlier ones end.

Temporal counts the tasks of a caller only when those that this process has started since the last count may have used
up the limit. A queued task has a dispatcher, which this process signals, and checks for once a minute.
"""

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from cachetools import LRUCache
from temporalio.client import Client
from temporalio.common import WorkflowIDConflictPolicy
from temporalio.service import RPCError

from outlast.activities.dispatch.contracts import (
    LOOK_SIGNAL,
    DispatchInput,
    counting_query,
    dispatch_workflow_id,
    queued_query,
)
from outlast.api.access.limits.rate_limits import Clock
from outlast.api.access.policy.contracts import Limits
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import ApiError, TemporalUnavailable, TooManyRequests
from outlast.api.metrics import LIMITED
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.task_view import owner_of
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.dispatch import DispatchWorkflow

KEPT_SECONDS = 5
_KEPT_COUNT_SECONDS = 3
LOOK_SECONDS = 60.0
_MAX_QUEUED_CALLERS = 50
"""Callers that one look finds at most. Each costs a query."""
log = logging.getLogger("outlast.api")
_MAX_CALLERS = 10_000
_COUNT_SECONDS = 5.0
_COUNT_PAUSE_SECONDS = 0.25
_QUEUE_COUNT_PAUSE_SECONDS = 1.0
"""Shortest time between two counts of one caller's tasks; the second applies while some are queued."""
_LAG_SECONDS = 2.0
"""How long Temporal's lists may not show a task that was started, or a clock may be wrong."""
_OLDEST_LAG_SECONDS = 10.0
"""So much longer at most, when starts were under way then."""
_TELL_PAUSE_SECONDS = 10.0
"""Shortest time between two signals to a dispatcher: it goes on looking for a minute."""
_QUEUED_AT_ONCE = 2
"""Tasks of one caller that are written as queued at once: Temporal has others to serve meanwhile."""
_RETRY_SECONDS = 5
_METRICS_COUNT_PAUSE_SECONDS = 5.0
_METRICS_COUNT_SECONDS = 3.0
_NEAR = 0.5
_MAX_COUNTED = 20
"""Callers whose tasks one scrape of `/metrics` counts at most."""


@dataclass
class Start:
    """When Temporal was asked to start a task, and when it had confirmed it: infinity before that. Seconds."""

    asked_at: float
    known_at: float = float("inf")


@dataclass
class _Share:
    """One caller's tasks: as last counted, and those that this process has placed since."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    queueing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_QUEUED_AT_ONCE))
    counted_at: float = float("-inf")
    is_known: bool = False
    """Whether a first count has ended: while it is awaited, nothing is known of older tasks."""
    notified_at: float = float("-inf")
    working: int = 0
    queued: int = 0
    started: dict[str, Start] = field(default_factory=dict[str, Start])
    waiting: dict[str, Start] = field(default_factory=dict[str, Start])

    @property
    def all_working(self) -> int:
        return self.working + len(self.started)

    @property
    def all_queued(self) -> int:
        return self.queued + len(self.waiting)

    def forget(self, moment: float) -> None:
        """Leave out the tasks that were started before `moment`: a count has seen them."""
        for tasks in (self.started, self.waiting):
            for task_id in [task_id for task_id, start in tasks.items() if start.known_at < moment]:
                del tasks[task_id]

    def quiet_moment(self, moment: float) -> float:
        """The last one up to `moment`: at another one, the lists of Temporal and this process may both count a task."""
        starts = [*self.started.values(), *self.waiting.values()]
        return quiet_moment(starts, latest=moment, earliest=moment - _OLDEST_LAG_SECONDS)


class FairQueue:
    """Decides for each new task whether it begins at once or is queued, by its caller's limits in the policy."""

    def __init__(self, client: Client, policy: PolicySource, clock: Clock = time.monotonic) -> None:
        """Apply the limits of the `policy` in force."""
        self._client = client
        self._policy = policy
        self._clock = clock
        self._shares: LRUCache[str, _Share] = LRUCache(_MAX_CALLERS)

    @asynccontextmanager
    async def placed(self, caller_id: str, task_id: str) -> AsyncGenerator[bool]:
        """Start a task of the caller within the block; gives whether it has to be queued.

        Before one is queued, the caller's dispatcher is signalled. Raises `TooManyRequests` when the queue is full, and
        `TemporalUnavailable`.
        """
        share = self._share(caller_id)
        queued = await self._has_to_wait(caller_id, task_id, share)
        tasks = share.waiting if queued else share.started
        try:
            async with share.queueing if queued else nullcontext():
                yield queued
        except BaseException:
            tasks.pop(task_id, None)
            raise
        if task_id in tasks:
            tasks[task_id].known_at = self._clock()

    async def _has_to_wait(self, caller_id: str, task_id: str, share: _Share) -> bool:
        """Whether the task has to be queued. It counts from now on."""
        limits = self._policy.of(caller_id).limits
        if not self._begins_at_once(share, limits):
            async with share.lock:
                if not self._begins_at_once(share, limits):
                    await self._recount(caller_id, share)
                if not self._begins_at_once(share, limits):
                    if share.all_queued >= limits.queued_tasks:
                        raise _queue_is_full(limits)
                    await self._tell(caller_id, share, limits)
                    share.waiting[task_id] = Start(self._clock())
                    return True
        share.started[task_id] = Start(self._clock())
        return False

    def has_ended(self, caller_id: str, task_id: str) -> None:
        """A task that this process has started does not count any more. Who waited for it knows first."""
        share = self._shares.get(caller_id)
        if share is not None:
            share.started.pop(task_id, None)

    async def count_queues(self) -> None:
        """Count again the tasks of those callers that were near a limit at their last count, for `/metrics`."""
        old = self._clock() - _METRICS_COUNT_PAUSE_SECONDS
        stale = [
            (caller_id, share)
            for caller_id, share in self._shares.items()
            if share.counted_at < old and (share.all_queued or self._uses(caller_id, share) >= _NEAR)
        ]
        with suppress(TimeoutError):
            async with asyncio.timeout(_METRICS_COUNT_SECONDS):
                for caller_id, share in sorted(stale, key=lambda entry: entry[1].counted_at)[:_MAX_COUNTED]:
                    async with share.lock:
                        await self._count(caller_id, share)

    def queued(self) -> Mapping[str, int]:
        """How many tasks of each caller are queued, as last counted; callers without any are left out."""
        return {caller_id: share.all_queued for caller_id, share in self._shares.items() if share.all_queued}

    def used(self) -> Mapping[str, Mapping[str, float]]:
        """For each caller, the part of its limits that is in use, as last counted."""
        used: dict[str, Mapping[str, float]] = {}
        for caller_id, share in self._shares.items():
            limits = self._policy.of(caller_id).limits
            used[caller_id] = {
                "concurrent_tasks": self._uses(caller_id, share),
                "queued_tasks": min(1.0, share.all_queued / max(1, limits.queued_tasks)),
            }
        return used

    def _uses(self, caller_id: str, share: _Share) -> float:
        """The part of its share that a caller uses: older tasks as last counted, and those that no count has seen."""
        return min(1.0, share.all_working / self._policy.of(caller_id).limits.concurrent_tasks)

    def _share(self, caller_id: str) -> _Share:
        share = self._shares.get(caller_id)
        if share is None:
            share = self._shares[caller_id] = _Share()
        return share

    def _begins_at_once(self, share: _Share, limits: Limits) -> bool:
        """Nobody overtakes: while tasks are queued, later ones are queued as well."""
        return share.is_known and not share.all_queued and share.all_working < limits.concurrent_tasks

    async def _recount(self, caller_id: str, share: _Share) -> None:
        """Count, unless it is too early: while tasks are queued, the last count does; otherwise it is waited for."""
        least = _QUEUE_COUNT_PAUSE_SECONDS if share.all_queued else _COUNT_PAUSE_SECONDS
        pause = share.counted_at + least - self._clock()
        if pause > 0:
            if share.all_queued:
                return
            await asyncio.sleep(pause)
        await self._count(caller_id, share)

    async def _count(self, caller_id: str, share: _Share) -> None:
        """Without an answer, the last count holds: lists may fail while tasks can be started."""
        share.counted_at = began = self._clock()
        # The latest tasks may be in the lists or not: this process knows its own, and asks the lists for older ones.
        knows_some = share.started or share.waiting
        moment = share.quiet_moment(began - _LAG_SECONDS)
        started_by = datetime.now(UTC) - timedelta(seconds=began - moment) if knows_some else None
        try:
            async with asyncio.timeout(_COUNT_SECONDS):
                working, queued = await asyncio.gather(
                    self._client.count_workflows(counting_query(caller_id, started_by=started_by)),
                    self._client.count_workflows(queued_query(caller_id, started_by=started_by)),
                )
        except (RPCError, RuntimeError, TimeoutError) as error:
            log.warning("The tasks of %s cannot be counted: %s", caller_id, error or "no answer in time")
        else:
            share.working, share.queued = working.count, queued.count
        share.is_known = True
        share.forget(moment)

    async def _tell(self, caller_id: str, share: _Share, limits: Limits) -> None:
        if self._clock() - share.notified_at < _TELL_PAUSE_SECONDS:
            return
        with temporal_errors():
            await signal_dispatcher(self._client, DispatchInput(caller_id=caller_id, share=limits.concurrent_tasks))
        share.notified_at = self._clock()


def _queue_is_full(limits: Limits) -> TooManyRequests:
    LIMITED.labels("queued_tasks").inc()
    return TooManyRequests(
        f"{limits.queued_tasks} of your tasks are queued, which is the most that may be (`queued_tasks` in the "
        "operator's policy). Nothing was started: repeat the request when some of them have begun, or cancel some.",
        retry_after_seconds=_RETRY_SECONDS,
    )


class QueueKeeper:
    """Looks for queued tasks once a minute, and tells the dispatchers of their callers."""

    def __init__(self, client: Client, policy: PolicySource) -> None:
        """Have tasks released as the `policy` in force says."""
        self._client = client
        self._policy = policy

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Look at once, and then every minute, until left."""
        task = asyncio.create_task(self._look_forever())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def _look_forever(self) -> None:
        while True:
            try:
                with temporal_errors():
                    await self._look()
            except (RPCError, RuntimeError, TemporalUnavailable) as error:
                log.warning("Queued tasks cannot be looked for: %s", error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        """One query per caller: a list of all tasks would be long, and most of them one caller's."""
        others = queued_query()
        for _ in range(_MAX_QUEUED_CALLERS):
            found = [one async for one in self._client.list_workflows(others, limit=1, page_size=1)]
            caller_id = owner_of(found[0]) if found else None
            if caller_id is None:
                return
            share = self._policy.of(caller_id).limits.concurrent_tasks
            await signal_dispatcher(self._client, DispatchInput(caller_id=caller_id, share=share))
            others += f" AND {search_attributes.CALLER.name} != {search_attributes.quoted(caller_id)}"


class KeptCount:
    """Counts tasks of all callers, and keeps the number for some seconds, however many ask."""

    def __init__(
        self, ask: Callable[[], Awaitable[int]], *, seconds: float = KEPT_SECONDS, clock: Clock = time.monotonic
    ) -> None:
        """Count with `ask`."""
        self._ask = ask
        self._seconds = seconds
        self._clock = clock
        self._lock = asyncio.Lock()
        self._counted_at = float("-inf")
        self._count = float("nan")

    async def count(self) -> float:
        """The number; NaN while Temporal does not answer."""
        async with self._lock:
            if self._clock() - self._counted_at >= self._seconds:
                self._count = await self._counted()
                self._counted_at = self._clock()
            return self._count

    async def _counted(self) -> float:
        try:
            async with asyncio.timeout(_KEPT_COUNT_SECONDS):
                return await self._ask()
        except (ApiError, TimeoutError):
            return float("nan")


async def signal_dispatcher(client: Client, request: DispatchInput) -> None:
    """Have the caller's dispatcher look for queued tasks; it is started if it does not run. Raises `RPCError`."""
    await client.start_workflow(
        DispatchWorkflow.run,
        request,
        id=dispatch_workflow_id(request.caller_id),
        task_queue=TOOLS_TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        search_attributes=search_attributes.of_dispatcher(request.caller_id),
        static_summary=f"dispatcher of {request.caller_id}",
        start_signal=LOOK_SIGNAL,
        start_signal_args=[request],
    )


def quiet_moment(starts: Iterable[Start], *, latest: float, earliest: float) -> float:
    """The last moment from `earliest` to `latest` at which none of `starts` was under way; `latest` without any.

    A start takes Temporal a while, on a busy machine seconds. At any other moment only Temporal knows whether the task
    began before it.
    """
    found = latest
    for start in sorted(starts, key=lambda start: start.asked_at, reverse=True):
        if start.asked_at < found <= start.known_at:
            found = start.asked_at
    return found if found >= earliest else latest
