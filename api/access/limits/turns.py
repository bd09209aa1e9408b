"""Taking turns: what one caller asks for again and again waits behind itself, not in front of others."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary


class CallerTurns:
    """Lets each caller do a thing `at_once` times at a time in this process. More wait for their turn, in order."""

    def __init__(self, at_once: int) -> None:
        """Let a caller do it `at_once` times at a time."""
        self._at_once = at_once
        self._gates: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def turn(self, caller_id: str) -> AsyncGenerator[None]:
        """Wait for this caller's turn; it lasts until the end of the block."""
        # Whoever waits or is at work holds the gate; it goes with the last of them.
        gate = self._gates.setdefault(caller_id, asyncio.Semaphore(self._at_once))
        async with gate:
            yield
