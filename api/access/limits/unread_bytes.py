"""Budgets for bytes that this process holds for clients that have not read them yet.

A client that does not read its responses would fill the memory. Streams take room before they read, and wait if there
is none.
"""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from weakref import WeakValueDictionary

from outlast.api.access.policy.source import PolicySource

_SMALL_BYTES = 16 * 1024
"""Smaller messages are not counted."""
_UNREAD_AFTER_SECONDS = 1.0


class UnreadBytes:
    """The budgets of all callers in this process."""

    def __init__(self, policy: PolicySource) -> None:
        self._policy = policy
        self._rooms: WeakValueDictionary[str, CallerRoom] = WeakValueDictionary()

    def room_of(self, caller_id: str) -> "CallerRoom":
        """Return the room of a caller: the same object while it is in use."""
        return self._rooms.setdefault(caller_id, CallerRoom(self._policy, caller_id))

    def share_of(self, caller_id: str) -> float:
        """Return the used share of a caller's budget."""
        room = self._rooms.get(caller_id)
        return 0.0 if room is None else room.used_bytes / room.limit_bytes


class CallerRoom:
    """The room of one caller, as readers of outputs and datasets take it (`activities.outputs.store.room.Room`)."""

    def __init__(self, policy: PolicySource, caller_id: str) -> None:
        self._policy = policy
        self._caller_id = caller_id
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()
        self.used_bytes = 0
        self.unread_answers_bytes = 0
        """Bytes of whole responses in memory that have waited for their clients for a second."""

    @property
    def limit_bytes(self) -> int:
        """The whole budget."""
        return self._policy.of(self._caller_id).limits.unread_bytes

    @property
    def is_scarce(self) -> bool:
        """See `Room`."""
        return bool(self._waiting)

    @property
    def is_full(self) -> bool:
        """True while nothing more fits."""
        return self.used_bytes >= self.limit_bytes

    @contextmanager
    def counted(self, size_bytes: int) -> Generator[None]:
        """Count a response that is in memory already, and that ends with the block. It is unread after a second."""
        if size_bytes <= _SMALL_BYTES:
            yield
            return
        unread = 0

        def has_waited() -> None:
            nonlocal unread
            unread = size_bytes
            self.unread_answers_bytes += unread

        self.used_bytes += size_bytes
        waiting = asyncio.get_running_loop().call_later(_UNREAD_AFTER_SECONDS, has_waited)
        try:
            yield
        finally:
            waiting.cancel()
            self.unread_answers_bytes -= unread
            self.add(-size_bytes)

    @asynccontextmanager
    async def hold(self, size_bytes: int) -> AsyncGenerator["HeldRoom"]:
        """Implement `Room`, in order of arrival."""
        if self._waiting or not self._fits(size_bytes):
            await self._granted(size_bytes)
        else:
            self.used_bytes += size_bytes
        held = HeldRoom(self, size_bytes)
        try:
            yield held
        finally:
            held.holds(0)

    def add(self, size_bytes: int) -> None:
        """Change the use, and grant the waiting requests that now fit."""
        self.used_bytes += size_bytes
        while self._waiting and self._fits(self._waiting[0][0]):
            size, grant = self._waiting.popleft()
            if not grant.cancelled():
                self.used_bytes += size
                grant.set_result(None)

    def _fits(self, size_bytes: int) -> bool:
        """A size above the whole budget fits while the room is empty."""
        return self.used_bytes == 0 or self.used_bytes + size_bytes <= self.limit_bytes

    async def _granted(self, size_bytes: int) -> None:
        grant = asyncio.get_running_loop().create_future()
        self._waiting.append((size_bytes, grant))
        try:
            await grant
        except asyncio.CancelledError:
            is_granted = grant.done() and not grant.cancelled()
            with suppress(ValueError):
                self._waiting.remove((size_bytes, grant))
            self.add(-size_bytes if is_granted else 0)
            raise


@dataclass
class HeldRoom:
    """Room that is held, see `Held`."""

    _room: CallerRoom
    _size_bytes: int

    def holds(self, size_bytes: int) -> None:
        """See `Held`."""
        more, self._size_bytes = size_bytes - self._size_bytes, size_bytes
        self._room.add(more)
