"""Slots of callers: in order, so many at once, each caller for itself, and given back whatever happens."""

import asyncio

import pytest

from outlast.api.access.limits.caller_limits import CallerLimits, CallerSlots
from outlast.api.access.policy.contracts import Limits
from outlast.api.access.policy.source import PolicySource
from outlast.api.errors import TooManyRequests
from outlast.api.settings import ApiSettings


async def settled() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_more_than_so_many_wait_in_order_and_nobody_else_does() -> None:
    slots, leave, begun = CallerSlots(), [asyncio.Event() for _ in range(4)], list[int]()

    async def take(number: int) -> None:
        async with slots.slot("busy", at_once=2):
            begun.append(number)
            await leave[number].wait()

    tasks = [asyncio.create_task(take(number)) for number in range(4)]
    await settled()
    assert begun == [0, 1]
    async with asyncio.timeout(60), slots.slot("another"):
        pass
    leave[1].set()
    await settled()
    assert begun == [0, 1, 2]
    for event in leave:
        event.set()
    await asyncio.gather(*tasks)
    assert begun == [0, 1, 2, 3]


async def test_a_slot_is_left_after_three_seconds_and_only_once(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, ahead = asyncio.get_running_loop(), 0.0
    real_time = loop.time
    monkeypatch.setattr(loop, "time", lambda: real_time() + ahead)
    slots, leave, begun = CallerSlots(), asyncio.Event(), list[int]()

    async def take(number: int) -> None:
        async with slots.slot("busy"):
            begun.append(number)
            await leave.wait()

    tasks = [asyncio.create_task(take(number)) for number in range(4)]
    await settled()
    ahead += 2.9
    await settled()
    assert begun == [0]
    ahead += 0.2
    await settled()
    assert begun == [0, 1]
    with pytest.raises(TimeoutError):
        async with slots.slot("busy", wait_seconds=0):
            pass
    # The second one holds the only place: that the first one ends now makes no room once more.
    tasks[0].cancel()
    await settled()
    assert begun == [0, 1]
    leave.set()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert begun == [0, 1, 2, 3]


async def test_a_slot_is_left_with_an_error_and_with_a_caller_that_leaves() -> None:
    slots = CallerSlots()
    with pytest.raises(ValueError, match="no"):
        async with slots.slot("one"):
            raise ValueError("no")

    async def wait() -> None:
        async with slots.slot("one"):
            pass

    async with slots.slot("one"):
        leaving = asyncio.create_task(wait())
        await settled()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    async with asyncio.timeout(60):
        await wait()


async def test_what_is_not_begun_within_half_a_minute_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The number of slots is that of the policy in force."""
    loop, ahead = asyncio.get_running_loop(), 0.0
    real_time = loop.time
    monkeypatch.setattr(loop, "time", lambda: real_time() + ahead)
    limits = CallerLimits(PolicySource(None, base=ApiSettings(limits=Limits(concurrent_lists=2)).policy))
    leave, begun = asyncio.Event(), list[int]()

    async def read(number: int) -> None:
        async with limits.awaited_slot("busy", "concurrent_lists"):
            begun.append(number)
            await leave.wait()

    tasks = [asyncio.create_task(read(number)) for number in range(2)]
    await settled()
    tasks += [asyncio.create_task(read(number)) for number in range(2, 6)]
    await settled()
    assert begun == [0, 1]
    ahead += 31
    await settled()
    # The places of the first two are free again by now: two more go in, or time is over for them too.
    refused = [task.exception() for task in tasks if task.done()]
    assert len(refused) + len(begun) == 6
    assert len(refused) >= 2
    for error in refused:
        assert isinstance(error, TooManyRequests)
        assert "2 at a time (`concurrent_lists` in the operator's policy)" in str(error)
        assert error.retry_after_seconds is not None
    leave.set()
    await asyncio.gather(*tasks, return_exceptions=True)
