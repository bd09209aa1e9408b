"""Awaits the ends of many tasks: a few by asking each, all others by Temporal's lists.

A Temporal server answers a limited number of requests at a time that wait for the end of a workflow, for all of its
clients. So a batch has few of them.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from outlast.activities.batches.contracts import ItemOutcome
from outlast.activities.batches.tasks import ItemTasks

ASKED_AT_ONCE = 64
"""Tasks whose ends are waited for by a request each."""
_ASKED_SECONDS = 20.0
"""How long such a request waits before another task gets its turn."""
_LIST_SECONDS = 2.0
_LIST_OVERLAP = timedelta(seconds=30)
"""How much later than its end a task may show in the lists. One that shows later is found by a request."""


@dataclass(frozen=True, eq=False)
class _Waiting:
    """Somebody who waits for the end of a task. Several may wait for the same one."""

    task_id: str
    listed: asyncio.Event = field(default_factory=asyncio.Event)


class EndsOfItems:
    """Gives how tasks end. `watch` has to run meanwhile."""

    def __init__(self, tasks: ItemTasks, batch_id: str) -> None:
        """Ask `tasks` about items of this batch."""
        self._tasks = tasks
        self._batch_id = batch_id
        self._turns = asyncio.Semaphore(ASKED_AT_ONCE)
        self._waiting: set[_Waiting] = set()

    async def outcome(self, task_id: str) -> ItemOutcome | None:
        """How the task has ended, when it has; None when there is none. Raises as `ItemTasks.outcome` does."""
        waiting = _Waiting(task_id)
        self._waiting.add(waiting)
        try:
            while not waiting.listed.is_set():
                if not await self._has_turn(waiting.listed):
                    break
                try:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_ASKED_SECONDS):
                            return await self._tasks.outcome(task_id)
                finally:
                    self._turns.release()
            return await self._tasks.outcome(task_id)
        finally:
            self._waiting.discard(waiting)

    async def watch(self) -> None:
        """Look through Temporal's lists, while there are more tasks than turns."""
        while True:
            await asyncio.sleep(_LIST_SECONDS)
            if len(self._waiting) <= ASKED_AT_ONCE:
                continue
            ended = await self._tasks.ended(self._batch_id, datetime.now(UTC) - _LIST_OVERLAP)
            for waiting in self._waiting:
                if waiting.task_id in ended:
                    waiting.listed.set()

    async def _has_turn(self, listed: asyncio.Event) -> bool:
        """Wait for a turn, or until the lists show that the task has ended; whether it is a turn."""
        turn, shown = asyncio.ensure_future(self._turns.acquire()), asyncio.ensure_future(listed.wait())
        try:
            await asyncio.wait({turn, shown}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            turn.add_done_callback(lambda ended: None if ended.cancelled() else self._turns.release())
            raise
        finally:
            shown.cancel()
            if not turn.done():
                turn.cancel()
        return turn.done() and not turn.cancelled()
