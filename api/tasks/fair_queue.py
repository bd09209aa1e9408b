"""Fair queueing: tasks of a caller beyond its concurrency limit wait until earlier ones end.

A caller's tasks are counted only when those started since the last count may exceed the limit. A dispatcher, which this
process signals and checks once a minute, releases queued tasks.
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

from outlast.activities.dispatch import contracts as dispatch
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
"""Most callers that one look finds. Each costs a query."""
log = logging.getLogger("outlast.api")
_MAX_CALLERS = 10_000
_COUNT_SECONDS = 5.0
_COUNT_PAUSE_SECONDS = 0.25
_QUEUE_COUNT_PAUSE_SECONDS = 1.0
"""Shortest time between two counts of one caller's tasks; the second applies while some are queued."""
_LAG_SECONDS = 2.0
"""Lag of Temporal's lists, or error of a clock."""
_OLDEST_LAG_SECONDS = 10.0
"""Most additional lag while starts were pending."""
_TELL_PAUSE_SECONDS = 10.0
"""Shortest time between two signals to a dispatcher, which looks for queued tasks for a minute."""
_QUEUED_AT_ONCE = 2
"""Queued tasks of one caller that are started at once, so that Temporal can serve others."""
_RETRY_SECONDS = 5
_METRICS_COUNT_PAUSE_SECONDS = 5.0
_METRICS_COUNT_SECONDS = 3.0
_NEAR = 0.5
_MAX_COUNTED = 20
"""Most callers whose tasks one scrape of `/metrics` counts."""


@dataclass
class Start:
    """Times (seconds) of the request to start a task and of Temporal's confirmation: infinity before that."""

    asked_at: float
    known_at: float = float("inf")


@dataclass
class _Share:
    """One caller's tasks: the last count, and those that this process has placed since."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    queueing: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(_QUEUED_AT_ONCE))
    counted_at: float = float("-inf")
    is_known: bool = False
    """True after a first count. Before that, older tasks are unknown."""
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
        """Remove the tasks that were started before `moment`, because a count includes them."""
        for tasks in (self.started, self.waiting):
            for task_id in [task_id for task_id, start in tasks.items() if start.known_at < moment]:
                del tasks[task_id]

    def quiet_moment(self, moment: float) -> float:
        """The last quiet moment up to `moment`: at others, Temporal's lists and this process may both count a task."""
        starts = [*self.started.values(), *self.waiting.values()]
        return quiet_moment(starts, latest=moment, earliest=moment - _OLDEST_LAG_SECONDS)


@dataclass(eq=False)
class FairQueue:
    """Decides for each new task whether it begins at once or is queued, by its caller's limits in the policy."""

    client: Client
    policy: PolicySource
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._shares: LRUCache[str, _Share] = LRUCache(_MAX_CALLERS)

    @asynccontextmanager
    async def placed(self, caller_id: str, task_id: str) -> AsyncGenerator[bool]:
        """Start a task of the caller within the block. Yields whether it has to be queued.

        Raises `TooManyRequests` when the queue is full, and `TemporalUnavailable`.
        """
        share = self._shares.get(caller_id)
        if share is None:
            share = self._shares[caller_id] = _Share()
        queued = await self._has_to_wait(caller_id, task_id, share)
        tasks = share.waiting if queued else share.started
        try:
            async with share.queueing if queued else nullcontext():
                yield queued
        except BaseException:
            tasks.pop(task_id, None)
            raise
        if task_id in tasks:
            tasks[task_id].known_at = self.clock()

    async def _has_to_wait(self, caller_id: str, task_id: str, share: _Share) -> bool:
        """Count the task, and return whether it has to be queued."""
        limits = self.policy.of(caller_id).limits
        if not self._begins_at_once(share, limits):
            async with share.lock:
                if not self._begins_at_once(share, limits):
                    await self._recount(caller_id, share)
                if not self._begins_at_once(share, limits):
                    if share.all_queued >= limits.queued_tasks:
                        raise _queue_is_full(limits)
                    if self.clock() - share.notified_at >= _TELL_PAUSE_SECONDS:
                        request = dispatch.DispatchInput(caller_id=caller_id, share=limits.concurrent_tasks)
                        with temporal_errors():
                            await signal_dispatcher(self.client, request)
                        share.notified_at = self.clock()
                    share.waiting[task_id] = Start(self.clock())
                    return True
        share.started[task_id] = Start(self.clock())
        return False

    def has_ended(self, caller_id: str, task_id: str) -> None:
        """Stop counting a task that this process has started."""
        share = self._shares.get(caller_id)
        if share is not None:
            share.started.pop(task_id, None)

    async def count_queues(self) -> None:
        """Count the tasks of callers that were near a limit at their last count, for `/metrics`."""
        old = self.clock() - _METRICS_COUNT_PAUSE_SECONDS
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
        """The number of queued tasks of each caller that has some, as last counted."""
        return {caller_id: share.all_queued for caller_id, share in self._shares.items() if share.all_queued}

    def used(self) -> Mapping[str, Mapping[str, float]]:
        """For each caller, the fraction of its limits that is in use, as last counted."""
        return {
            caller_id: {
                "concurrent_tasks": self._uses(caller_id, share),
                "queued_tasks": min(1.0, share.all_queued / max(1, self.policy.of(caller_id).limits.queued_tasks)),
            }
            for caller_id, share in self._shares.items()
        }

    def _uses(self, caller_id: str, share: _Share) -> float:
        """The fraction of a caller's limit that is in use: tasks as last counted, and those started since."""
        return min(1.0, share.all_working / self.policy.of(caller_id).limits.concurrent_tasks)

    def _begins_at_once(self, share: _Share, limits: Limits) -> bool:
        """Return whether a task can start. While tasks are queued, later ones are queued as well."""
        return share.is_known and not share.all_queued and share.all_working < limits.concurrent_tasks

    async def _recount(self, caller_id: str, share: _Share) -> None:
        """Count, after a pause if it is too early. While tasks are queued, the last count is used instead."""
        least = _QUEUE_COUNT_PAUSE_SECONDS if share.all_queued else _COUNT_PAUSE_SECONDS
        pause = share.counted_at + least - self.clock()
        if pause > 0:
            if share.all_queued:
                return
            await asyncio.sleep(pause)
        await self._count(caller_id, share)

    async def _count(self, caller_id: str, share: _Share) -> None:
        """Count the caller's tasks. Without an answer, the last count is kept."""
        share.counted_at = began = self.clock()
        # Lists may lack the latest tasks, so they count only tasks older than those that this process has started.
        knows_some = share.started or share.waiting
        moment = share.quiet_moment(began - _LAG_SECONDS)
        started_by = datetime.now(UTC) - timedelta(seconds=began - moment) if knows_some else None
        try:
            async with asyncio.timeout(_COUNT_SECONDS):
                working, queued = await asyncio.gather(
                    self.client.count_workflows(dispatch.counting_query(caller_id, started_by=started_by)),
                    self.client.count_workflows(dispatch.queued_query(caller_id, started_by=started_by)),
                )
        except (RPCError, RuntimeError, TimeoutError) as error:
            log.warning("The tasks of %s cannot be counted: %s", caller_id, error or "no answer in time")
        else:
            share.working, share.queued = working.count, queued.count
        share.is_known = True
        share.forget(moment)


def _queue_is_full(limits: Limits) -> TooManyRequests:
    LIMITED.labels("queued_tasks").inc()
    return TooManyRequests(
        f"{limits.queued_tasks} of your tasks are queued, which is your limit (`queued_tasks` in the operator's "
        "policy). Nothing was started: repeat the request when some of them have started, or cancel some.",
        retry_after_seconds=_RETRY_SECONDS,
    )


@dataclass(eq=False)
class QueueKeeper:
    """Looks for queued tasks once a minute, and signals the dispatchers of their callers."""

    client: Client
    policy: PolicySource

    @asynccontextmanager
    async def watching(self) -> AsyncGenerator[None]:
        """Look at once, and then every minute, within the block."""
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
        """Find queued tasks with one query per caller: a list of all tasks would be long."""
        others = dispatch.queued_query()
        for _ in range(_MAX_QUEUED_CALLERS):
            found = [one async for one in self.client.list_workflows(others, limit=1, page_size=1)]
            caller_id = owner_of(found[0]) if found else None
            if caller_id is None:
                return
            share = self.policy.of(caller_id).limits.concurrent_tasks
            await signal_dispatcher(self.client, dispatch.DispatchInput(caller_id=caller_id, share=share))
            others += f" AND {search_attributes.CALLER.name} != {search_attributes.quoted(caller_id)}"


@dataclass(eq=False)
class KeptCount:
    """Counts tasks of all callers, and caches the number for some seconds."""

    ask: Callable[[], Awaitable[int]]
    seconds: float = KEPT_SECONDS
    clock: Clock = time.monotonic

    def __post_init__(self) -> None:
        self._lock = asyncio.Lock()
        self._counted_at = float("-inf")
        self._count = float("nan")

    async def count(self) -> float:
        """The number; NaN while Temporal does not answer."""
        async with self._lock:
            if self.clock() - self._counted_at >= self.seconds:
                try:
                    async with asyncio.timeout(_KEPT_COUNT_SECONDS):
                        self._count = await self.ask()
                except (ApiError, TimeoutError):
                    self._count = float("nan")
                self._counted_at = self.clock()
            return self._count


async def signal_dispatcher(client: Client, request: dispatch.DispatchInput) -> None:
    """Signal the caller's dispatcher to look for queued tasks, and start it if needed. Raises `RPCError`."""
    await client.start_workflow(
        DispatchWorkflow.run,
        request,
        id=dispatch.dispatch_workflow_id(request.caller_id),
        task_queue=TOOLS_TASK_QUEUE,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        search_attributes=search_attributes.of_dispatcher(request.caller_id),
        static_summary=f"dispatcher of {request.caller_id}",
        start_signal=dispatch.LOOK_SIGNAL,
        start_signal_args=[request],
    )


def quiet_moment(starts: Iterable[Start], *, latest: float, earliest: float) -> float:
    """The last moment from `earliest` to `latest` at which none of `starts` was pending; `latest` if there is none.

    A start can take seconds. During it, only Temporal knows whether the task began before a moment.
    """
    found = latest
    for start in sorted(starts, key=lambda start: start.asked_at, reverse=True):
        if start.asked_at < found <= start.known_at:
            found = start.asked_at
    return found if found >= earliest else latest
