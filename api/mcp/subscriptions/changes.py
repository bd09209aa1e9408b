"""Who wants to know that a connection's list of tools has changed."""

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager


class Changes:
    """The open `subscriptions/listen` streams of one connection: a change concerns no other's."""

    def __init__(self) -> None:
        """Nobody listens yet."""
        self._waiting: set[asyncio.Event] = set()

    def tell(self) -> None:
        """The list has changed."""
        for changed in self._waiting:
            changed.set()

    @contextmanager
    def listening(self) -> Generator["Listening"]:
        """Hear of every change while the block runs; changes that come together are one."""
        changed = asyncio.Event()
        self._waiting.add(changed)
        try:
            yield Listening(changed)
        finally:
            self._waiting.discard(changed)


class Listening:
    """One stream."""

    def __init__(self, changed: asyncio.Event) -> None:
        """`changed` is set by `Changes`."""
        self._changed = changed

    async def changes(self) -> AsyncIterator[None]:
        """Yields once per change, for ever."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            yield
