"""Turns of callers: in order, so many at once, each caller for itself, and given back whatever happens."""

import asyncio

import pytest

from outlast.api.access.limits.turns import CallerTurns


async def settled() -> None:
    """Let every task go as far as it can."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_more_than_so_many_wait_in_order_and_nobody_else_does() -> None:
    turns, leave, begun = CallerTurns(2), [asyncio.Event() for _ in range(4)], list[int]()

    async def take(number: int) -> None:
        async with turns.turn("busy"):
            begun.append(number)
            await leave[number].wait()

    tasks = [asyncio.create_task(take(number)) for number in range(4)]
    await settled()
    assert begun == [0, 1]
    async with asyncio.timeout(5), turns.turn("another"):
        pass
    leave[1].set()
    await settled()
    assert begun == [0, 1, 2]
    for event in leave:
        event.set()
    await asyncio.gather(*tasks)
    assert begun == [0, 1, 2, 3]


async def test_a_turn_ends_with_an_error_and_with_a_caller_that_leaves() -> None:
    turns = CallerTurns(1)
    with pytest.raises(ValueError, match="no"):
        async with turns.turn("one"):
            raise ValueError("no")

    async def wait() -> None:
        async with turns.turn("one"):
            pass

    async with turns.turn("one"):
        leaving = asyncio.create_task(wait())
        await settled()
        leaving.cancel()
        await asyncio.gather(leaving, return_exceptions=True)
    async with asyncio.timeout(5):
        await wait()
