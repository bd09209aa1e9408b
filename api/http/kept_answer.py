"""Answers that cost time and are the same for everybody: made seldom, however many ask."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from outlast.api.access.limits.rate_limits import Clock, TokenBucket

_Answer = TypeVar("_Answer")
_PER_SECOND = 2
_BURST = 20
"""Whoever asks seldom, as probes and Prometheus do, gets an answer that was made for it."""


class KeptAnswer(Generic[_Answer]):
    """One answer. It is made again at most twice a second over longer times; in between the last one counts."""

    def __init__(self, make: Callable[[], Awaitable[_Answer]], clock: Clock = time.monotonic) -> None:
        """Make it with `make`."""
        self._make = make
        self._bucket = TokenBucket(clock)
        self._making: asyncio.Task[_Answer] | None = None
        self._last: asyncio.Task[_Answer] | None = None

    async def get(self) -> _Answer:
        """The answer. Raises what `make` raises."""
        answer = self._making
        if answer is None:
            answer = self._last
            if self._bucket.take(_PER_SECOND, _BURST) == 0 or answer is None:
                answer = self._making = asyncio.create_task(self._made())
                answer.add_done_callback(self._keep)
        # Those who come while it is made share it; it does not end when one of them leaves.
        return await asyncio.shield(answer)

    async def _made(self) -> _Answer:
        return await self._make()

    def _keep(self, made: asyncio.Task[_Answer]) -> None:
        self._making, self._last = None, made
        if not made.cancelled():
            made.exception()
