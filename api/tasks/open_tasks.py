"""How many tasks are open, for `/metrics`: a scrape costs Temporal a query every few seconds at most."""

import asyncio
import time

from outlast.api.access.limits.token_bucket import Clock
from outlast.api.errors import ApiError
from outlast.api.tasks.client import TaskClient

KEPT_SECONDS = 5
_COUNT_SECONDS = 3


class OpenTasks:
    """Counts the open tasks of all callers, and keeps the number for five seconds, however many ask."""

    def __init__(self, tasks: TaskClient, clock: Clock = time.monotonic) -> None:
        """Count with `tasks`."""
        self._tasks = tasks
        self._clock = clock
        self._lock = asyncio.Lock()
        self._counted_at = float("-inf")
        self._count = float("nan")

    async def count(self) -> float:
        """Tasks whose workflow has not ended; NaN while Temporal does not answer."""
        async with self._lock:
            if self._clock() - self._counted_at >= KEPT_SECONDS:
                self._count = await self._counted()
                self._counted_at = self._clock()
            return self._count

    async def _counted(self) -> float:
        try:
            async with asyncio.timeout(_COUNT_SECONDS):
                return await self._tasks.count_open()
        except (ApiError, TimeoutError):
            return float("nan")
