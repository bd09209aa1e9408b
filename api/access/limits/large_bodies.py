"""Large bodies of one caller are worked on one after another, with rests while others are served.

To parse, check and seal a large body holds the event loop for up to a fifth of a second. Those that one caller sends
together would hold it for the sum of that, again and again, and every step of another caller's request would wait.
"""

import asyncio
from contextvars import ContextVar

from outlast.api.access.limits.turns import CallerTurns

_REST_TIMES = 2
"""A rest is so many times as long as the turn before it: the caller has a third of the event loop at most."""
_MAX_REST_SECONDS = 2.0
_SERVED_LATELY_SECONDS = 1.0

_turn: ContextVar["BodyTurn | None"] = ContextVar("outlast_body_turn", default=None)


class BodyTurn:
    """A request's turn to have its large body worked on. It ends before the request does when the request waits."""

    def __init__(self, turns: "LargeBodyTurns", caller_id: str) -> None:
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
        async with self._turns.gates.turn(self._caller_id):
            self._begun.set()
            clock = asyncio.get_running_loop()
            began = clock.time()
            await self._ended.wait()
            if self._turns.others_are_served(self._caller_id):
                await asyncio.sleep(min(_REST_TIMES * (clock.time() - began), _MAX_REST_SECONDS))


class LargeBodyTurns:
    """The turns of all callers in this process."""

    def __init__(self) -> None:
        """One body of each caller at a time."""
        self.gates = CallerTurns(1)
        self._latest = ("", 0.0)
        self._before = ("", 0.0)
        """The latest request of another caller than that of the latest one."""

    def note_request(self, caller_id: str) -> None:
        """Remember that this caller is being served."""
        if self._latest[0] != caller_id:
            self._before = self._latest
        self._latest = (caller_id, asyncio.get_running_loop().time())

    def others_are_served(self, caller_id: str) -> bool:
        """Whether a request of another caller has come lately."""
        other, at = self._latest if self._latest[0] != caller_id else self._before
        return other != "" and asyncio.get_running_loop().time() - at < _SERVED_LATELY_SECONDS


def end_body_turn() -> None:
    """The request that is being served has dealt with its body; from here on it only waits."""
    turn = _turn.get()
    if turn is not None:
        turn.end()
