"""Counts of tasks for `/metrics`: however many scrape, Temporal is asked every few seconds at most."""

import asyncio
import time
from collections.abc import Awaitable, Callable

from outlast.api.access.limits.rate_limits import Clock
from outlast.api.errors import ApiError

KEPT_SECONDS = 5
_COUNT_SECONDS = 3


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
            async with asyncio.timeout(_COUNT_SECONDS):
                return await self._ask()
        except (ApiError, TimeoutError):
            return float("nan")
