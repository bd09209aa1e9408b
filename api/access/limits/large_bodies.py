"""Large bodies of one caller are worked on one after another, with rests while others are served.

To parse, check and seal a large body holds the event loop for up to a fifth of a second. Those that one caller sends
together would hold it for the sum of that, again and again, and every step of another caller's request would wait.
"""

import asyncio
from contextvars import ContextVar

from outlast.api.access.limits.turns import CallerTurns

_turn: ContextVar["BodyTurn | None"] = ContextVar("outlast_body_turn", default=None)


class BodyTurn:
    """A request's turn to have its large body worked on. It ends before the request does when the request waits."""

    def __init__(self, turns: CallerTurns, caller_id: str) -> None:
        """A turn of this caller, which has not begun."""
        self._turns = turns
        self._caller_id = caller_id
        self._ended = asyncio.Event()
        self._begun = asyncio.Event()
        self._holding: asyncio.Task[None] | None = None

    async def begin(self) -> None:
        """Wait for the turn; the code that serves the request may end it with `end_body_turn`."""
        self._holding = asyncio.create_task(self._hold())
        await self._begun.wait()
        _turn.set(self)

    def end(self) -> None:
        """Let the caller's next large body have its turn. Does nothing the second time."""
        self._ended.set()

    async def _hold(self) -> None:
        async with self._turns.turn(self._caller_id):
            self._begun.set()
            await self._ended.wait()


def end_body_turn() -> None:
    """The request that is being served has dealt with its body; from here on it only waits."""
    turn = _turn.get()
    if turn is not None:
        turn.end()
