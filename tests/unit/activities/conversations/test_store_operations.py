"""How often conversations ask their store: as often as there is something new, however long they are."""

import base64
from collections import Counter
from collections.abc import AsyncIterator, Collection
from datetime import timedelta
from pathlib import Path

import pytest
from obstore.store import LocalStore

from outlast.activities.conversations import blocks as stored_blocks
from outlast.activities.conversations.blocks import (
    ConversationBlocks,
    ConversationSweep,
    conversation_prefix,
    conversations_prefix,
)
from outlast.activities.conversations.contracts import Block, ConversationOwner, ConversationRef, ModelMessage, TextPart
from outlast.activities.object_store import OutputObjects, StoredObject
from outlast.activities.outputs.sweep import TemporalTasks
from outlast.activities.secrets import SecretSealer

SEALER = SecretSealer.from_text("test:" + base64.b64encode(bytes(32)).decode())
TURNS = 50


class CountingObjects(OutputObjects):
    """A store on disk that counts what is asked of it, by operation and name."""

    def __init__(self, folder: Path) -> None:
        super().__init__(LocalStore(folder, mkdir=True), folder)
        self.asked: Counter[tuple[str, str]] = Counter()

    def total(self, operation: str) -> int:
        return sum(count for (one, _), count in self.asked.items() if one == operation)

    async def get(self, key: str) -> bytes | None:
        self.asked["get", key] += 1
        return await super().get(key)

    async def put(self, key: str, data: bytes) -> None:
        self.asked["put", key] += 1
        await super().put(key, data)

    async def folders(self, prefix: str) -> tuple[str, ...]:
        self.asked["folders", prefix] += 1
        return await super().folders(prefix)

    async def list(self, prefix: str) -> AsyncIterator[StoredObject]:
        self.asked["list", prefix] += 1
        async for entry in super().list(prefix):
            yield entry


class AllEnded(TemporalTasks):
    """Every session has ended."""

    def __init__(self) -> None:
        self.namespace = "default"

    async def running(self, task_ids: Collection[str]) -> set[str]:
        return set()


def turn(number: int) -> Block:
    return Block(messages=(ModelMessage(role="user", parts=(TextPart(text=f"Question {number}?"),)),))


def owner(number: int) -> ConversationOwner:
    return ConversationOwner(caller_id="local", session_id=f"s-{number}")


@pytest.fixture
def objects(tmp_path: Path) -> CountingObjects:
    return CountingObjects(tmp_path)


def blocks_of(objects: CountingObjects) -> ConversationBlocks:
    """As a process has them that has just begun."""
    return ConversationBlocks(objects, SEALER, namespace="default")


async def test_a_block_larger_than_the_cache_is_written_and_read_all_the_same(
    objects: CountingObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_blocks, "CACHE_BYTES", 10)
    blocks, conversation = blocks_of(objects), ConversationRef()
    for number in range(3):
        conversation = await blocks.append(owner(1), conversation, turn(number))
    assert objects.total("get") == 2  # the block before, each time


@pytest.mark.parametrize("restarts", [False, True], ids=["one process", "a new process each turn"])
async def test_a_turn_writes_one_object_and_reads_one_at_most(objects: CountingObjects, restarts: bool) -> None:
    blocks, conversation = blocks_of(objects), ConversationRef()
    for number in range(TURNS):
        blocks = blocks_of(objects) if restarts else blocks
        conversation = await blocks.append(owner(1), conversation, turn(number))
    assert objects.total("put") == TURNS
    assert objects.total("get") == (TURNS - 1 if restarts else 0)
    blocks = blocks_of(objects) if restarts else blocks
    for expected in ((TURNS if restarts else 0), 0):
        objects.asked.clear()
        assert len(await blocks.messages(owner(1), conversation)) == TURNS
        assert objects.total("get") == expected


async def test_the_latest_messages_are_read_without_the_whole_conversation(objects: CountingObjects) -> None:
    conversation = ConversationRef()
    for number in range(TURNS):
        conversation = await blocks_of(objects).append(owner(1), conversation, turn(number))
    objects.asked.clear()
    assert await blocks_of(objects).turn(owner(1), conversation)
    assert objects.total("get") == 1


async def test_a_sweep_lists_each_place_once_in_however_many_pages(objects: CountingObjects) -> None:
    blocks = blocks_of(objects)
    for number in range(TURNS):
        await blocks.append(owner(number), ConversationRef(), turn(number))
    sweep = ConversationSweep(objects, blocks, AllEnded(), grace=timedelta(0))
    objects.asked.clear()
    cursor, pages = "", 0
    while cursor is not None:
        _, cursor = await sweep.page(cursor, 1)
        pages += 1
    root = conversations_prefix("default")
    places = {conversation_prefix("default", owner(number)).rpartition("/")[0] for number in range(TURNS)}
    assert objects.asked["folders", root] == pages == len(places) > 20
    assert {name: objects.asked["folders", name] for name in places} == dict.fromkeys(places, 1)
    assert objects.total("folders") == pages + len(places)
    assert objects.total("list") == 2 * TURNS, "once to look, and again before anything is deleted"
    assert [entry async for entry in objects.list(root)] == []
