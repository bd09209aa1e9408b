"""Items that wait for money: of the caller's caps enough is left, and other runs have reserved it.

Such an item is started again when a run of the batch has ended, or after a pause. One item at a time tries, so the
wait costs the same whatever the number of items, and the ledger is asked before a task is made.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

_FIRST_PAUSE_SECONDS = 5.0
_LONGEST_PAUSE_SECONDS = 60.0


class MoneyGate:
    """Closed while the caller's caps are reserved by other runs."""

    def __init__(self, reason: str | None) -> None:
        """Begin closed if there is a `reason`: that of the round before."""
        self.reason = reason
        self._turn = asyncio.Lock()
        self._ended = asyncio.Event()
        self._waiting = 0
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    @property
    def is_open(self) -> bool:
        """Whether items may be started."""
        return self.reason is None

    def close(self, reason: str) -> None:
        """An item was refused because of what other runs have reserved."""
        if self.reason is not None:
            self._pause_seconds = min(2 * self._pause_seconds, _LONGEST_PAUSE_SECONDS)
        self.reason = reason

    def item_ended(self) -> None:
        """An item of the batch has ended, so that what it has reserved is free soon."""
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._ended.set()

    async def wait(self, still_refused: Callable[[], Awaitable[str | None]]) -> None:
        """Wait until it is this item's turn to be started, and `still_refused` gives no reason against it."""
        self._waiting += 1
        try:
            async with self._turn:  # in the order in which they came
                await self._next_chance(still_refused)
                if self._waiting == 1:
                    self.reason = None
        finally:
            self._waiting -= 1

    async def _next_chance(self, still_refused: Callable[[], Awaitable[str | None]]) -> None:
        while self.reason is not None:
            self._ended.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._pause_seconds):
                    await self._ended.wait()
            reason = await still_refused()
            if reason is None:
                return
            self.close(reason)
