"""Large bodies of one caller are worked on one after another, with rests while others are served.

To parse, check and seal a large body holds the event loop for up to a fifth of a second. Those that one caller sends
together would hold it for the sum of that, again and again, and every step of another caller's request would wait.
"""

import asyncio
from contextvars import ContextVar

from outlast.api.access.limits.caller_slots import CallerSlots

_slot: ContextVar["BodySlot | None"] = ContextVar("outlast_body_slot", default=None)


class BodySlot:
    """A slot for the work on the large body of a request. It is left before the request does when the request waits."""

    def __init__(self, slots: CallerSlots, caller_id: str) -> None:
        """One of this caller, not taken yet."""
        self._slots = slots
        self._caller_id = caller_id
        self._ended = asyncio.Event()
        self._begun = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Wait for the slot; the code that serves the request may leave it with `leave_body_slot`."""
        self._holding = asyncio.create_task(self._hold())
        await self._begun.wait()
        _slot.set(self)

    def end(self) -> None:
        """Leave the slot to the caller's next large body. Does nothing the second time."""
        self._ended.set()

    async def _hold(self) -> None:
        async with self._slots.slot(self._caller_id):
            self._begun.set()
            await self._ended.wait()


def leave_body_slot() -> None:
    """The request that is being served has dealt with its body; from here on it only waits."""
    slot = _slot.get()
    if slot is not None:
        slot.end()
