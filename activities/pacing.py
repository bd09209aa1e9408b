"""Pauses of those that look again and again at something: many of them look no more often, together, than a few. A
constant pause costs the more the more wait. These grow with the number of those that wait, within one process.
"""

import asyncio
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import timedelta

_FORGET_AFTER = 1_000
"""Keys of a line, from which on those without anybody are forgotten."""


class Looks:
    """Those in this process that follow something of one kind, and share a number of looks per second."""

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._followers = 0

    @contextmanager
    def follower(self) -> Generator[None]:
        """Count one more until the end of the block."""
        self._followers += 1
        try:
            yield
        finally:
            self._followers -= 1

    def pause_seconds(self, least: float) -> float:
        """Return the pause of each until its next look, `least` seconds while they are few."""
        return max(least, self._followers / self._per_second)

    async def pause(self, least: float) -> None:
        """Wait until the next look, for those that count as followers only while they wait, as in an outage."""
        with self.follower():
            await asyncio.sleep(self.pause_seconds(least))


class Line:
    """Those in this process that try something again until there is room: each gets the next free moment. So they keep
    their order, and try no more often together however many they are.
    """

    def __init__(self, per_second: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._gap = 1 / per_second
        self._clock = clock
        self._last: dict[str, float] = {}

    def pause(self, key: str, least: timedelta) -> timedelta:
        """The pause of one that has just tried in vain, in the line of this key: `least` while the line is short."""
        now = self._clock()
        if len(self._last) >= _FORGET_AFTER:
            self._last = {name: moment for name, moment in self._last.items() if moment > now}
        earliest = now + least.total_seconds()
        moment = max(earliest, self._last.get(key, 0.0) + self._gap)
        self._last[key] = moment
        return timedelta(seconds=moment - now) if moment > earliest else least
