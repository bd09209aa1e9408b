"""Limits on what a caller may have: so many schedules, saved calls, open batches. They hold when requests come at once.

The lists of Temporal show what was made a second ago, and a request that has passed the check has made nothing yet. So
a place is taken in one step with the count, and counts until the list shows what was made in it. Each API process
counts for itself: several of them can exceed a limit by what they start within the same second.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from cachetools import LRUCache

from outlast.api.access.limits.token_bucket import Clock
from outlast.api.errors import TooManyRequests
from outlast.api.metrics import LIMITED

_MAX_CALLERS = 10_000
_SHOWN_AFTER_SECONDS = 60.0
"""By then every list shows what was made, or it is gone again."""

Listed = Callable[[], Awaitable[set[str]]]
Exists = Callable[[str], Awaitable[bool]]


@dataclass
class _Places:
    """One caller's: ids that are being made, and those that were made and when."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    taken: set[str] = field(default_factory=set[str])
    made: dict[str, float] = field(default_factory=dict[str, float])

    def settle(self, listed: set[str], now: float) -> None:
        """Forget what the list shows by now, or would show."""
        shown = [one for one, at in self.made.items() if one in listed or now - at > _SHOWN_AFTER_SECONDS]
        for one in shown:
            del self.made[one]

    def all(self, listed: set[str]) -> set[str]:
        """What the list shows, and what it does not show yet."""
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
        """Make `item_id` within the block, when the caller has fewer than `most`.

        `listed` gives the ids that there are, perhaps late; `exists` whether one that it does not show is there still.
        Raises `TooManyRequests` with the text of `refusal`, and what the two raise.
        """
        places = self._callers.get(caller_id)
        if places is None:
            places = self._callers[caller_id] = _Places()
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
        # The same request at the same time has this place already.
        if item_id in places.all(shown) or len(places.all(shown)) < most:
            return True
        # What was made and has ended or was deleted since is in no list either.
        for made in [*places.made]:
            if not await exists(made):
                places.made.pop(made, None)
        return len(places.all(shown)) < most
