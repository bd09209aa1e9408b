"""The room of a caller for what its clients have not taken yet."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from outlast.api.access.limits.caller_limits import CallerRoom, UnreadBytes
from outlast.api.access.policy.contracts import Limits
from outlast.api.access.policy.source import PolicySource
from outlast.api.settings import ApiSettings

MB = 2**20


def room(megabytes: int = 4) -> CallerRoom:
    policy = PolicySource(None, base=ApiSettings(limits=Limits(unread_bytes=megabytes * MB)).policy)
    return UnreadBytes(policy).room_of("key:ann")


class Reader:
    """Holds room until `leave`."""

    def __init__(self, room: CallerRoom, megabytes: float, log: list[str] | None = None, name: str = "") -> None:
        self.is_in = False
        self._leaves = asyncio.Event()
        self.task = asyncio.create_task(self._read(room, int(megabytes * MB), log, name))

    async def _read(self, room: CallerRoom, size: int, log: list[str] | None, name: str) -> None:
        async with room.hold(size):
            self.is_in = True
            if log is not None:
                log.append(name)
            await self._leaves.wait()

    async def leave(self) -> None:
        self._leaves.set()
        await self.task


async def settled() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_readers_that_find_no_room_wait_and_come_in_order() -> None:
    shared, log = room(4), list[str]()
    first, second = Reader(shared, 3), Reader(shared, 1)
    await settled()
    large, small = Reader(shared, 4, log, "large"), Reader(shared, 1, log, "small")
    await settled()
    assert (first.is_in, second.is_in, large.is_in, small.is_in) == (True, True, False, False)
    assert shared.is_scarce
    await first.leave()
    await settled()
    assert not small.is_in, "it would fit, but the large one came first"
    await second.leave()
    await settled()
    assert log == ["large"]
    await large.leave()
    await small.leave()
    assert log == ["large", "small"]
    assert (shared.used_bytes, shared.is_scarce) == (0, False)


async def test_a_read_of_more_than_all_room_comes_alone() -> None:
    shared = room(4)
    small = Reader(shared, 1)
    await settled()
    huge = Reader(shared, 100)
    await settled()
    assert not huge.is_in
    await small.leave()
    await settled()
    assert huge.is_in
    await huge.leave()
    assert shared.used_bytes == 0


async def test_room_that_is_held_too_large_is_given_to_others() -> None:
    shared = room(4)
    async with AsyncExitStack() as held:
        place = await held.enter_async_context(shared.hold(4 * MB))
        waiting = Reader(shared, 3)
        await settled()
        assert not waiting.is_in
        place.holds(MB)
        await settled()
        assert waiting.is_in
        await waiting.leave()
    assert shared.used_bytes == 0


@pytest.mark.parametrize("is_granted", [False, True])
async def test_a_reader_that_leaves_while_it_waits_takes_no_room(is_granted: bool) -> None:
    shared = room(4)
    first = Reader(shared, 4)
    await settled()
    leaving, last = Reader(shared, 4), Reader(shared, 4)
    await settled()
    if is_granted:
        await first.leave()  # the one that leaves has been let in, and does not know it yet
        leaving.task.cancel()
    else:
        leaving.task.cancel()
        await settled()
        await first.leave()
    await settled()
    assert last.is_in
    await last.leave()
    assert shared.used_bytes == 0


async def test_a_caller_has_one_room_while_it_is_in_use() -> None:
    policy = PolicySource(None, base=ApiSettings().policy)
    unread = UnreadBytes(policy)
    async with unread.room_of("key:ann").hold(MB):
        assert unread.room_of("key:ann").used_bytes == MB
        assert unread.room_of("key:bob").used_bytes == 0
        assert 0 < unread.share_of("key:ann") < 1
    assert unread.share_of("key:ann") == 0
