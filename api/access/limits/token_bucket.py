"""A token bucket: so many at once, and so many per second over longer times."""

import math
import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds, as `time.monotonic` counts them."""


class TokenBucket:
    """Tokens come at `rate` per second, up to `burst`. Each use passes both, since a policy may change them.

    The libraries for rate limits count windows of time; none keeps a rate and a burst apart.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        """A full bucket."""
        self._clock = clock
        self._spent = 0.0
        self._at = clock()

    def take(self, rate: float, burst: int) -> float:
        """Take a token. Returns 0, or when there is none the seconds until there is one."""
        self._refill(rate)
        if self._spent + 1 > burst:
            return (self._spent + 1 - burst) / rate
        self._spent += 1
        return 0

    def give_back(self) -> None:
        """Undo one `take`."""
        self._spent = max(0.0, self._spent - 1)

    def left(self, rate: float, burst: int) -> int:
        """Tokens that can be taken now."""
        self._refill(rate)
        return max(0, math.floor(burst - self._spent))

    def seconds_until_full(self, rate: float) -> float:
        """Seconds until the bucket is full again if nobody takes a token."""
        self._refill(rate)
        return self._spent / rate

    def share(self, rate: float, burst: int) -> float:
        """The part of the burst that is spent, 0 to 1."""
        self._refill(rate)
        return min(1.0, self._spent / burst)

    def _refill(self, rate: float) -> None:
        now = self._clock()
        self._spent = max(0.0, self._spent - (now - self._at) * rate)
        self._at = now
