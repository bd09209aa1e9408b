"""Slots of callers: repeated work of one caller delays that caller, not others.

Parsing, checking and encrypting a large body can block the event loop for 200 ms. So the large bodies of one caller are
processed one after another, with pauses while others are served.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from weakref import WeakValueDictionary

_RECENT_SECONDS = 1.0
_REST_TIMES = 2
"""Ratio of a pause to the use of the slot before it."""
_MAX_REST_SECONDS = 2.0
_MAX_SECONDS = 3.0
"""Maximum time of a use of a slot with its pause."""


class ServedCallers:
    """The callers whose requests this process has served within the last second."""

    def __init__(self) -> None:
        self._latest = ("", 0.0)
        self._before = ("", 0.0)
        """The latest request of another caller than that of the latest one."""

    def note(self, caller_id: str) -> None:
        """Record that this caller is being served."""
        if self._latest[0] != caller_id:
            self._before = self._latest
        self._latest = (caller_id, asyncio.get_running_loop().time())

    def others_than(self, caller_id: str) -> bool:
        """Check whether another caller was served within the last second."""
        other, at = self._latest if self._latest[0] != caller_id else self._before
        return other != "" and asyncio.get_running_loop().time() - at < _RECENT_SECONDS


class CallerSlots:
    """Concurrency limit for each caller in this process; further work waits in order.

    While other callers are served, a pause follows each use of a slot. A slot is released after three seconds at the
    latest, so that stalled work does not block all other work of its caller.
    """

    def __init__(self, served: ServedCallers | None = None) -> None:
        """Without `served` there are no rests."""
        self._served = served
        self._gates: WeakValueDictionary[tuple[str, int], asyncio.Semaphore] = WeakValueDictionary()

    @asynccontextmanager
    async def slot(
        self, caller_id: str, *, at_once: int = 1, wait_seconds: float | None = None
    ) -> AsyncGenerator[None]:
        """Wait for one of the caller's `at_once` slots, and hold it during the block. Raises `TimeoutError`."""
        # A gate lives as long as a request of the caller waits, is at work or rests: each holds a reference.
        gate = self._gates.setdefault((caller_id, at_once), asyncio.Semaphore(at_once))
        async with asyncio.timeout(wait_seconds):
            await gate.acquire()
        clock = asyncio.get_running_loop()
        began, place = clock.time(), _Place(gate)
        clock.call_later(_MAX_SECONDS, place.leave)
        try:
            yield
        finally:
            if self._served is not None and self._served.others_than(caller_id):
                clock.call_later(min(_REST_TIMES * (clock.time() - began), _MAX_REST_SECONDS), place.leave)
            else:
                place.leave()


class _Place:
    """A place at a gate."""

    def __init__(self, gate: asyncio.Semaphore) -> None:
        self._gate: asyncio.Semaphore | None = gate

    def leave(self) -> None:
        """Release the place. Does nothing the second time."""
        gate, self._gate = self._gate, None
        if gate is not None:
            gate.release()


_slot: ContextVar["BodySlot | None"] = ContextVar("outlast_body_slot", default=None)


class BodySlot:
    """A slot for the work on the large body of a request. A request that waits releases it early."""

    def __init__(self, slots: CallerSlots, caller_id: str) -> None:
        self._slots = slots
        self._caller_id = caller_id
        self._ended = asyncio.Event()
        self._begun = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Wait for the slot; the code that serves the request may release it with `leave_body_slot`."""
        self._holding = asyncio.create_task(self._hold())
        await self._begun.wait()
        _slot.set(self)

    def end(self) -> None:
        """Release the slot for the caller's next large body. Does nothing the second time."""
        self._ended.set()

    async def _hold(self) -> None:
        async with self._slots.slot(self._caller_id):
            self._begun.set()
            await self._ended.wait()


def leave_body_slot() -> None:
    """Release the body slot of the current request, which only waits from here on."""
    slot = _slot.get()
    if slot is not None:
        slot.end()
