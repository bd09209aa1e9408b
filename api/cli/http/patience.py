"""Waiting for a server that is away for a moment: politely, not for ever, and saying so."""

import asyncio
import time
from collections.abc import Callable

from outlast.api.cli.errors import Unreachable

Notice = Callable[[str | None], None]
"""Told what is being waited for, and None once that is over."""

_FIRST_DELAY_SECONDS = 0.5
_MAX_DELAY_SECONDS = 10.0


def ignore_notice(text: str | None) -> None:
    """Tell nobody."""
    del text


class Patience:
    """One wait for a server to come back: growing pauses until `limit_seconds` are over, or for ever without them."""

    def __init__(self, limit_seconds: float | None, notice: Notice) -> None:
        self._limit_seconds = limit_seconds
        self._notice = notice
        self._began: float | None = None
        self._delay_seconds = _FIRST_DELAY_SECONDS

    def over(self) -> None:
        """The server has answered: the next trouble is a new one."""
        if self._began is not None:
            self._notice(None)
        self._began = None
        self._delay_seconds = _FIRST_DELAY_SECONDS

    async def wait(self, trouble: Unreachable, *, at_least_seconds: float | None = None) -> None:
        """Pause before the next attempt, or raise `trouble` when it has lasted too long."""
        now = time.monotonic()
        self._began = self._began or now
        pause = min(max(self._delay_seconds, at_least_seconds or 0), _MAX_DELAY_SECONDS)
        left = None if self._limit_seconds is None else self._limit_seconds - (now - self._began)
        if left is not None and pause > left:
            raise trouble
        self._notice(f"{trouble.message} Trying again{'' if left is None else f' for {left:.0f} s'} …")
        self._delay_seconds = min(self._delay_seconds * 2, _MAX_DELAY_SECONDS)
        await asyncio.sleep(pause)
