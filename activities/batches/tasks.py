"""What a round needs of tasks. This floor does not know how one is started: `worker.batches` does."""

from collections.abc import Mapping
from datetime import datetime
from decimal import Decimal
from typing import Protocol

from outlast.activities.batches.contracts import BatchPlace, ItemLine, ItemOutcome, MetTask


class ItemTasks(Protocol):
    """The tasks of items. Every method raises `RPCError` when Temporal does not answer, and may be repeated."""

    async def start(
        self, place: BatchPlace, item: ItemLine, task_id: str, *, limit_usd: Decimal | None, after: str | None
    ) -> MetTask:
        """Start the task of an item, unless there is one; which one it is. Its run may cost `limit_usd` at most.

        An item that equal calls may answer has the task of one of these, and `task_id` is its key there.

        `after` is the task of the attempt before, whose run may go on for this one, where the call allows that.
        Raises `ValueError` for an item that is none.
        """
        ...

    async def refused(self, place: BatchPlace, item: ItemLine, *, limit_usd: Decimal | None) -> str | None:
        """Why the caller's caps would refuse a run of the item now, in a sentence; None if they would not."""
        ...

    async def outcome(self, task_id: str) -> ItemOutcome | None:
        """How the task has ended, as soon as it has; None when there is none."""
        ...

    async def cancel(self, task_id: str) -> None:
        """Cancel the task, unless it has ended or does not exist."""
        ...

    async def existing(self, items: Mapping[str, ItemLine]) -> Mapping[str, MetTask]:
        """The tasks that were started for items, by the ids that `start` was given, as far as there are any."""
        ...

    async def ended(self, batch_id: str, since: datetime) -> frozenset[str]:
        """The tasks of a batch that have ended since a moment, as far as Temporal's lists show them."""
        ...


class BatchRoom(Protocol):
    """How many items a round may have at work, beside what else its caller does."""

    async def free(self, running: int) -> int:
        """How many items may be started now, while so many are under way."""
        ...

    def started(self) -> None:
        """One more item is being started."""
        ...
