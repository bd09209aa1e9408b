"""Histories that grow while they are read: no entry is left out, whatever Temporal does with its pages."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing, asynccontextmanager

import pytest
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle

from outlast.activities.outputs.reader import Held, Room
from outlast.api.temporal.history import RunFold, follow_history
from tests.support.eventually import eventually

Handle = WorkflowHandle[object, object]


class Numbers(RunFold[int]):
    async def events_of(self, entry: HistoryEvent) -> Iterable[int]:
        return [entry.event_id]


class Enough:
    """Room for everything."""

    is_scarce = False

    @asynccontextmanager
    async def hold(self, size_bytes: int) -> AsyncGenerator[Held]:
        yield self

    def holds(self, size_bytes: int) -> None: ...


class Crowded:
    """Room that others wait for."""

    is_scarce = True

    def __init__(self) -> None:
        self.granted = 0
        self.is_held = False

    @asynccontextmanager
    async def hold(self, size_bytes: int) -> AsyncGenerator[Held]:
        self.granted += 1
        self.is_held = True
        yield self

    def holds(self, size_bytes: int) -> None:
        self.is_held = size_bytes > 0


@pytest.fixture
async def growing(temporal: Client) -> Handle:
    """A workflow that no worker runs: each signal is one entry."""
    handle = await temporal.start_workflow("Nobody", id=f"grows-{uuid.uuid4()}", task_queue="nobody")
    await write(handle, 5)
    return handle


@pytest.mark.parametrize("room", [None, Enough()], ids=["without room", "with room"])
async def test_no_entry_is_left_out_that_is_written_while_others_are_read(
    temporal: Client, growing: Handle, room: Room | None
) -> None:
    found: list[int] = []
    async for number in read(temporal, growing, room):
        found.append(number)
        if number < 60:
            await write(growing, number % 7)
        elif number == 100:
            await write(growing, 200)
        elif number == 300:
            await growing.terminate()
    assert found == list(range(1, len((await growing.fetch_history()).events) + 1))


@pytest.mark.parametrize("last", range(1, 8))
async def test_the_end_is_not_left_out_that_is_written_while_entries_are_read(
    temporal: Client, growing: Handle, last: int
) -> None:
    found: list[int] = []
    async for number in read(temporal, growing, Enough()):
        found.append(number)
        if number == last:
            await write(growing, 30)
            await growing.terminate()
    assert found == list(range(1, len((await growing.fetch_history()).events) + 1))


@pytest.mark.parametrize("last", range(1, 8))
async def test_entries_that_are_left_out_do_not_wait_for_the_next_one(
    temporal: Client, growing: Handle, last: int
) -> None:
    found: list[int] = []
    async with asyncio.timeout(60), aclosing(read(temporal, growing, Enough())) as numbers:
        async for number in numbers:
            found.append(number)
            if number == last:
                await write(growing, 30)
            if number == 2 + 5 + 30:
                break
    assert found == list(range(1, 2 + 5 + 30 + 1))


async def test_a_page_that_comes_after_its_room_went_to_others_is_read_again_in_room(
    temporal: Client, growing: Handle
) -> None:
    room = Crowded()
    async with asyncio.timeout(60), aclosing(read(temporal, growing, room)) as numbers:
        assert [await anext(numbers) for _ in range(2 + 5)] == list(range(1, 2 + 5 + 1))
        news = asyncio.ensure_future(anext(numbers))
        await eventually(lambda: not room.is_held)
        granted = room.granted
        await write(growing, 1)
        assert await news == 2 + 5 + 1
        assert room.granted == granted + 1


def read(temporal: Client, handle: Handle, room: Room | None) -> AsyncGenerator[int]:
    def new_fold(number: int) -> Numbers:
        return Numbers(temporal.data_converter, number)

    return follow_history(temporal, handle.id, handle.first_execution_run_id, new_fold, wait=True, room=room)


async def write(handle: Handle, entries: int) -> None:
    await asyncio.gather(*(handle.signal("signal") for _ in range(entries)))
