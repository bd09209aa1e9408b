"""Queued tasks begin in the order of their starts, never more than the share; batches leave room for them."""

import operator
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client

from outlast.activities.batches.activities import WAITING_FOR_RUNS, FairShare
from outlast.activities.batches.contracts import BATCH_WORKFLOW, BatchPlace
from outlast.activities.dispatch.activities import CallerQueue
from outlast.activities.dispatch.contracts import DispatchInput

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
RELEASED = re.compile(r"OutlastTaskStatus = 'queued' AND StartTime (<=|<) '([^']+)'")


class Lists:
    """Temporal's lists, which begin with the latest task and may not show for a while that one was released."""

    def __init__(self, *queued: tuple[str, int]) -> None:
        self.queued = {task_id: NOON + timedelta(seconds=second) for task_id, second in queued}
        self.working = 0
        self.released: list[str] = []

    def queue(self) -> CallerQueue:
        return CallerQueue(cast(Client, self), DispatchInput(caller_id="key:flo", share=2), "q")

    async def list_workflows(self, _: str, **__: object) -> AsyncIterator[Any]:
        for task_id, started_at in sorted(self.queued.items(), key=lambda task: task[1], reverse=True):
            yield SimpleNamespace(id=task_id, start_time=started_at)

    async def count_workflows(self, query: str) -> Any:
        count = self.working
        for comparison, moment in RELEASED.findall(query):
            is_counted = operator.le if comparison == "<=" else operator.lt
            count += sum(is_counted(at, datetime.fromisoformat(moment)) for at in self.queued.values())
        return SimpleNamespace(count=count)

    async def start_workflow(self, *_: object, **request: Any) -> None:
        self.released.append(request["id"])

    def show(self, *working: str) -> None:
        """The lists catch up: these tasks have begun."""
        for task_id in working:
            del self.queued[task_id]
        self.working += len(working)


async def test_tasks_are_released_first_come_first_served_within_the_share() -> None:
    lists = Lists(("d", 3), ("a", 0), ("c", 2), ("b", 1))
    queue = lists.queue()
    assert await queue.release()
    assert lists.released == ["a", "b"]
    # They count although the lists have them as queued still.
    assert await queue.release()
    assert lists.released == ["a", "b"]
    lists.show("a", "b")
    assert await queue.release()
    assert lists.released == ["a", "b"]
    lists.working -= 1
    for _ in range(2):  # The second time, the lists show neither that `c` was released, nor that it has begun.
        await queue.release()
        assert lists.released == ["a", "b", "c"]
    lists.show("c")
    lists.working -= 1
    await queue.release()
    assert (lists.released, queue.released) == (["a", "b", "c", "d"], 4)


async def test_tasks_of_one_instant_are_released_together() -> None:
    lists = Lists(("c", 1), ("a", 0), ("b", 1), ("d", 2))
    queue = lists.queue()
    await queue.release()
    assert lists.released == ["a", "b", "c"]


async def test_no_task_is_released_twice_and_a_queue_ends_when_the_lists_are_empty() -> None:
    lists = Lists(("a", 0))
    queue = lists.queue()
    assert [await queue.release() for _ in range(3)] == [True, True, True]
    lists.queued["b"] = NOON + timedelta(seconds=1)
    await queue.release()
    assert lists.released == ["a", "b"]
    lists.show("a", "b")
    assert not await queue.release()
    assert queue.released == 2


class BatchLists:
    """Temporal's lists for a batch, at a moment that the test sets."""

    def __init__(self) -> None:
        self.now = 100.0
        self.queued = 0
        self.without_run = 0

    def room(self, share: int, *, starts_runs: bool) -> FairShare:
        place = BatchPlace.model_construct(batch_id="b", caller_id="key:flo", share=share, starts_runs=starts_runs)
        return FairShare(cast(Client, self), place, lambda: self.now)

    async def count_workflows(self, query: str) -> Any:
        if BATCH_WORKFLOW in query:
            return SimpleNamespace(count=1)
        return SimpleNamespace(count=self.queued if "'queued'" in query else self.without_run)


async def test_an_item_that_was_just_started_counts_until_the_lists_must_show_it() -> None:
    lists = BatchLists()
    room = lists.room(100, starts_runs=True)
    assert await room.free(0) == WAITING_FOR_RUNS
    lists.now += 0.25
    room.started()
    room.started()
    lists.now += 0.25
    assert await room.free(2) == WAITING_FOR_RUNS - 2, "The lists do not show them yet."
    lists.without_run = 2
    lists.now += 1
    assert await room.free(2) == WAITING_FOR_RUNS - 2
    lists.without_run = 0
    assert await room.free(2) == WAITING_FOR_RUNS - 2, "It is too early for another look."
    lists.now += 1
    assert await room.free(2) == WAITING_FOR_RUNS


@pytest.mark.parametrize(("seconds", "free"), [(0.5, 73), (1.0, 23)])
async def test_calls_that_are_queued_get_their_part_with_the_next_look(seconds: float, free: int) -> None:
    lists = BatchLists()
    room = lists.room(100, starts_runs=False)
    assert await room.free(0) == 75
    room.started()
    lists.queued = 1
    lists.now += seconds
    assert await room.free(2) == free
