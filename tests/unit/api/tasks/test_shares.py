"""Which tasks begin at once and which are queued; and that each caller with a queue has a dispatcher."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from temporalio.client import Client
from temporalio.common import SearchAttributePair, TypedSearchAttributes
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.dispatch.contracts import DispatchInput
from outlast.api.access.policy.contracts import CallerEntry, Limits, Policy
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import TooManyRequests
from outlast.api.tasks.fair_queue import FairQueue, QueueKeeper
from outlast.workflows.contracts import search_attributes

FLO = "key:flo"


class PolicyOfTest:
    policy = Policy(
        callers={
            FLO: CallerEntry(limits=Limits(concurrent_tasks=2, queued_tasks=3)),
            "key:o'hara": CallerEntry(limits=Limits(concurrent_tasks=7)),
        }
    )

    def of(self, caller_id: str) -> Any:
        return self.policy.of(caller_id)


class Lists:
    """Temporal's lists, with tasks that are older than what this process has started."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.working = self.queued = 0
        self.is_away = False
        self.counts = 0
        self.queues: list[str] = []
        self.dispatchers: list[DispatchInput] = []

    def shares(self) -> FairQueue:
        return FairQueue(cast(Client, self), cast(PolicySource, PolicyOfTest()), lambda: self.now)

    async def count_workflows(self, query: str) -> Any:
        self.counts += 1
        if self.is_away:
            raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
        is_of_queue = query.endswith("AND OutlastTaskStatus = 'queued'")
        return SimpleNamespace(count=self.queued if is_of_queue else self.working)

    async def list_workflows(self, query: str, **_: object) -> AsyncIterator[Any]:
        for caller_id in self.queues:
            if f"OutlastCaller != {search_attributes.quoted(caller_id)}" not in query:
                owner = SearchAttributePair(search_attributes.CALLER, caller_id)
                yield SimpleNamespace(typed_search_attributes=TypedSearchAttributes([owner]))

    async def start_workflow(self, _: object, request: DispatchInput, **__: object) -> None:
        self.dispatchers.append(request)


async def placed(shares: FairQueue, *numbers: int) -> list[bool]:
    """Whether each of these tasks is queued."""
    found: list[bool] = []
    for number in numbers:
        async with shares.placed(FLO, f"task-{number}") as queued:
            found.append(queued)
    return found


async def test_tasks_beyond_the_share_are_queued_up_to_a_limit() -> None:
    lists = Lists()
    shares = lists.shares()
    assert await placed(shares, *range(5)) == [False, False, True, True, True]
    with pytest.raises(TooManyRequests, match="3 of your tasks are queued"):
        await placed(shares, 5)
    assert lists.dispatchers == [DispatchInput(caller_id=FLO, share=2)]
    assert shares.queued() == {FLO: 3}
    assert shares.used() == {FLO: {"concurrent_tasks": 1.0, "queued_tasks": 1.0}}


async def test_nobody_overtakes_those_that_are_queued() -> None:
    lists = Lists()
    lists.queued = 1
    shares = lists.shares()
    assert await placed(shares, 0) == [True], "There is room, but an older task waits for it."
    lists.queued = 0
    lists.now += 60
    assert await placed(shares, 1) == [False], "The lists show that all have begun."


async def test_nobody_overtakes_a_task_that_was_queued_a_moment_ago() -> None:
    """Temporal's lists do not show yet that it is queued."""
    lists = Lists()
    shares = lists.shares()
    assert await placed(shares, 0, 1, 2) == [False, False, True]
    shares.has_ended(FLO, "task-0")
    assert await placed(shares, 3) == [True]


async def test_a_task_that_has_ended_leaves_its_place_to_the_next() -> None:
    lists = Lists()
    shares = lists.shares()
    await placed(shares, 0, 1)
    shares.has_ended(FLO, "task-0")
    assert await placed(shares, 2, 3) == [False, True]


async def test_a_task_that_could_not_be_started_takes_no_place() -> None:
    shares = Lists().shares()
    for number in range(4):
        with pytest.raises(RPCError):
            async with shares.placed(FLO, f"task-{number}"):
                raise RPCError("away", RPCStatusCode.UNAVAILABLE, b"")
    assert await placed(shares, 4, 5, 6) == [False, False, True]


async def test_of_tasks_that_come_together_no_more_begin_than_the_share() -> None:
    lists = Lists()
    lists.working = 1
    shares = lists.shares()
    found = await asyncio.gather(*(placed(shares, number) for number in range(4)))
    assert sorted(queued for [queued] in found) == [False, True, True, True]


async def test_tasks_that_come_together_share_one_count() -> None:
    lists = Lists()
    shares = lists.shares()

    async def place(number: int) -> bool:
        async with shares.placed("key:o'hara", f"task-{number}") as queued:
            return queued

    assert await asyncio.gather(*(place(number) for number in range(5))) == [False] * 5
    assert lists.counts == 2, "one of working tasks and one of queued ones"


async def test_the_last_count_holds_while_lists_cannot_be_read() -> None:
    lists = Lists()
    lists.working = 2
    shares = lists.shares()
    assert await placed(shares, 0) == [True]
    lists.is_away = True
    lists.now += 60
    assert await placed(shares, 1) == [True]
    lists.is_away = False
    lists.working = 0
    lists.now += 60
    assert await placed(shares, 2) == [False]


async def test_each_caller_with_queued_tasks_gets_a_dispatcher_with_its_own_share() -> None:
    lists = Lists()
    lists.queues = [FLO, FLO, "key:o'hara", FLO]
    keeper = QueueKeeper(cast(Client, lists), cast(PolicySource, PolicyOfTest()))
    async with keeper.watching(), asyncio.timeout(60):
        while len(lists.dispatchers) < 2:
            await asyncio.sleep(0)
    assert lists.dispatchers == [
        DispatchInput(caller_id=FLO, share=2),
        DispatchInput(caller_id="key:o'hara", share=7),
    ]
