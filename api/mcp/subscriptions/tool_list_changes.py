"""Notifies the open streams of a connection that its list of tools has changed."""

import asyncio
from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager


class ToolListChanges:
    """The `subscriptions/listen` streams of one connection that wait for changes."""

    def __init__(self) -> None:
        """No stream listens yet."""
        self._listeners: set[asyncio.Event] = set()

    def notify(self) -> None:
        """The list of tools has changed."""
        for changed in self._listeners:
            changed.set()

    @contextmanager
    def listen(self) -> Generator["ChangeListener"]:
        """A listener that receives each change while the block runs. Changes in quick succession count as one."""
        changed = asyncio.Event()
        self._listeners.add(changed)
        try:
            yield ChangeListener(changed)
        finally:
            self._listeners.discard(changed)


class ChangeListener:
    """One stream."""

    def __init__(self, changed: asyncio.Event) -> None:
        """`ToolListChanges` sets `changed`."""
        self._changed = changed

    async def changes(self) -> AsyncIterator[None]:
        """Yield once per change, without end."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            yield
