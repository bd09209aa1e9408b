"""Quotas of callers: schedules, saved calls and open batches; stored bytes; MCP sessions."""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field

from cachetools import LRUCache

from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.output_format import scope_of
from outlast.api.access.limits.rate_limits import Clock
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import StorageFull, TooManyRequests
from outlast.api.metrics import LIMITED

_LIMIT = "mcp_sessions"
_RETRY_SECONDS = 30
_KEPT_SECONDS = 5.0
_KEPT_PER_SECOND = 50.0
"""Ratio of the lifetime of a count to its duration; five seconds at least, as the store has other work."""
_FULL_KEPT_SECONDS = 5.0
"""Lifetime of a count that refuses calls, whose caller may have deleted outputs."""
_COUNT_SECONDS = 3.0
"""Longest wait of a refused call for a new count."""
log = logging.getLogger("outlast.api")
_MAX_CALLERS = 10_000
_SHOWN_AFTER_SECONDS = 60.0
"""Time after which every list shows a new item, or it is gone again."""
Listed = Callable[[], Awaitable[set[str]]]
Exists = Callable[[str], Awaitable[bool]]


@dataclass
class _Places:
    """Ids of a caller's items that are being created, and those created recently, with the time."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    taken: set[str] = field(default_factory=set[str])
    made: dict[str, float] = field(default_factory=dict[str, float])

    def settle(self, listed: set[str], now: float) -> None:
        """Forget items that the list shows, or would show."""
        kept = {one: at for one, at in self.made.items() if one not in listed and now - at <= _SHOWN_AFTER_SECONDS}
        self.made = kept

    def all(self, listed: set[str]) -> set[str]:
        """Return the listed ids and those that the list does not show yet."""
        return listed | self.taken | self.made.keys()


class CountedPlaces:
    """The places of one limit of the policy, by caller."""

    def __init__(self, limit: str, *, retry_after_seconds: float, clock: Clock = time.monotonic) -> None:
        """`limit` is its name in the policy, and in the metric of what was refused."""
        self._limit = limit
        self._retry_after_seconds = retry_after_seconds
        self._clock = clock
        self._callers: LRUCache[str, _Places] = LRUCache(_MAX_CALLERS)

    @asynccontextmanager
    async def place(
        self, caller_id: str, item_id: str, most: int, *, listed: Listed, exists: Exists, refusal: str
    ) -> AsyncGenerator[None]:
        """Reserve a place for `item_id` while the block creates it, if the caller has fewer than `most`.

        `listed` returns the known ids, perhaps late; `exists` checks one that it does not list. Raises
        `TooManyRequests` with the text `refusal`, and their errors.
        """
        places = self._callers.setdefault(caller_id, _Places())
        async with places.lock:
            if not await self._has_room(places, item_id, most, listed, exists):
                LIMITED.labels(self._limit).inc()
                raise TooManyRequests(refusal, retry_after_seconds=self._retry_after_seconds)
            places.taken.add(item_id)
        try:
            yield
            places.made[item_id] = self._clock()
        finally:
            places.taken.discard(item_id)

    async def _has_room(self, places: _Places, item_id: str, most: int, listed: Listed, exists: Exists) -> bool:
        shown = await listed()
        places.settle(shown, self._clock())
        # A concurrent request with this id has the place already.
        if item_id in places.all(shown) or len(places.all(shown)) < most:
            return True
        # Items that have ended or were deleted since are in no list, either.
        for made in [*places.made]:
            if not await exists(made):
                places.made.pop(made, None)
        return len(places.all(shown)) < most


@dataclass
class _Stored:
    size_bytes: int = 0
    fresh_until: float = float("-inf")
    counted_at: float = float("-inf")
    counting: asyncio.Task[None] | None = None


class StoredBytes:
    """Limit on the space of each caller's outputs."""

    def __init__(self, objects: OutputObjects, policy: PolicySource, clock: Clock = time.monotonic) -> None:
        self._objects = objects
        self._policy = policy
        self._clock = clock
        self._callers: LRUCache[str, _Stored] = LRUCache(_MAX_CALLERS)
        self._one_at_a_time = asyncio.Lock()

    async def check(self, caller_id: str) -> None:
        """Raise `StorageFull` if the caller's outputs were too large when last counted."""
        stored = self._callers.setdefault(caller_id, _Stored())
        most = self._policy.of(caller_id).limits.stored_bytes
        is_full = stored.size_bytes > most
        if self._clock() >= (stored.counted_at + _FULL_KEPT_SECONDS if is_full else stored.fresh_until):
            counting = self._count_soon(caller_id, stored)
            if is_full:
                await asyncio.wait({counting}, timeout=_COUNT_SECONDS)
        if stored.size_bytes > most:
            LIMITED.labels("stored_bytes").inc()
            raise StorageFull(
                f"Your stored outputs take {stored.size_bytes:,} bytes, and may take {most:,} (`stored_bytes` in the "
                "operator's policy). Nothing was started: delete outputs that you do not need "
                "(`DELETE /v1/outputs/{locator}`, `outlast output rm`) or sessions with theirs, or wait until "
                "some expire. Removed ones count until the next sweep."
            )

    def used(self) -> Mapping[str, Mapping[str, float]]:
        """Return the used share of each caller's limit, as last counted."""
        limits = {caller_id: max(1, self._policy.of(caller_id).limits.stored_bytes) for caller_id in self._callers}
        return {
            caller_id: {"stored_bytes": min(1.0, stored.size_bytes / limits[caller_id])}
            for caller_id, stored in self._callers.items()
        }

    def _count_soon(self, caller_id: str, stored: _Stored) -> asyncio.Task[None]:
        if stored.counting is None or stored.counting.done():
            stored.counting = asyncio.create_task(self._count(caller_id, stored))
        return stored.counting

    async def _count(self, caller_id: str, stored: _Stored) -> None:
        async with self._one_at_a_time:
            began, size = self._clock(), 0
            try:
                for folder in ("parts", "manifests"):
                    async for entry in self._objects.list(f"{folder}/{scope_of(caller_id)}"):
                        size += entry.size
            except OSError as error:
                log.warning("The stored outputs of %s cannot be counted: %s", caller_id, error)
            else:
                stored.size_bytes = size
            stored.counted_at = self._clock()
            taken = stored.counted_at - began
            stored.fresh_until = stored.counted_at + max(_KEPT_SECONDS, _KEPT_PER_SECOND * taken)


class McpSessions:
    """The open sessions of each caller. The SDK ends sessions that are unused for `idle_seconds`."""

    def __init__(self, policy: PolicySource, idle_seconds: float, clock: Clock = time.monotonic) -> None:
        self._policy = policy
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._used_at: dict[str, dict[str, float]] = {}
        self._opening: Counter[str] = Counter()

    @contextmanager
    def opening(self, caller_id: str) -> Generator[Callable[[], None]]:
        """Count a session that the block opens until the yielded function is called, or the block ends.

        Call it once `use` has recorded the session. Raises `TooManyRequests` at the limit.
        """
        most = self._policy.of(caller_id).limits.mcp_sessions
        if len(self._open(caller_id)) + self._opening[caller_id] >= most:
            LIMITED.labels(_LIMIT).inc()
            raise TooManyRequests(
                f"{most} of your MCP sessions are open, the maximum (`{_LIMIT}` in the operator's policy). End "
                "sessions that you no longer use (DELETE with `Mcp-Session-Id`), or use protocol version 2026-07-28, "
                "which has none.",
                retry_after_seconds=_RETRY_SECONDS,
            )
        self._opening[caller_id] += 1
        counted = ExitStack()
        counted.callback(self._opened, caller_id)
        with counted:
            yield counted.close

    def use(self, caller_id: str, session_id: str) -> None:
        """Record the use of a session."""
        self._used_at.setdefault(caller_id, {})[session_id] = self._clock()

    def end(self, caller_id: str, session_id: str) -> None:
        """Record the end of a session."""
        self._used_at.get(caller_id, {}).pop(session_id, None)

    def used(self) -> Mapping[str, Mapping[str, float]]:
        """Return the used share of the limit, by caller with open sessions."""
        shares: dict[str, Mapping[str, float]] = {}
        for caller_id in list(self._used_at):
            count = len(self._open(caller_id))
            shares[caller_id] = {_LIMIT: count / self._policy.of(caller_id).limits.mcp_sessions}
            if not count:
                del self._used_at[caller_id]
        return shares

    def _opened(self, caller_id: str) -> None:
        self._opening[caller_id] -= 1
        if not self._opening[caller_id]:
            del self._opening[caller_id]

    def _open(self, caller_id: str) -> Mapping[str, float]:
        since = self._clock() - self._idle_seconds
        still = {session: at for session, at in self._used_at.get(caller_id, {}).items() if at > since}
        if caller_id in self._used_at:
            self._used_at[caller_id] = still
        return still
