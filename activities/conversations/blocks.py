"""Blocks of conversations: written, encrypted, read back, decrypted and removed. See `contracts` for the format.

Removal of conversations: by the sweep, or by their owner. A tombstone records why a session is gone. The sweep
deletes tombstones after 30 days, with those of outputs.
"""

import asyncio
import hashlib
import operator
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing, suppress
from datetime import UTC, datetime, timedelta
from typing import Literal

import zstandard
from cachetools import LRUCache
from pydantic import ValidationError
from pydantic_core import to_json

from outlast.activities.contracts import Contract, ErrorCategory, ErrorEnvelope
from outlast.activities.conversations.contracts import (
    MAX_BEFORE,
    Block,
    ConversationOwner,
    ConversationRef,
    ModelMessage,
    PromptHead,
)
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.exceptions import SealError
from outlast.activities.object_store import OutputObjects, StoredObject
from outlast.activities.outputs.output_format import scope_of
from outlast.activities.outputs.reader import Tombstone
from outlast.activities.outputs.sweep import Tally, TemporalTasks, delete_counted
from outlast.activities.secrets import SecretSealer
from outlast.fingerprints import as_folder

CONVERSATIONS = "conversations"
MAX_BLOCK_BYTES = 64 * 1024 * 1024
"""Largest JSON of a block. What a request and its tools may bring is far less."""


class ConversationDamaged(ToolFailure):
    """A block is missing, was changed, or was encrypted with a key that is no longer in the ring."""

    def __init__(self, problem: str) -> None:
        super().__init__(ErrorEnvelope.permanent(ErrorCategory.FILESYSTEM, "", problem, hint="Start another session."))


class _OwnerLine(Contract):
    version: int = 1
    owner: ConversationOwner
    key_id: str


def digest_of(block_json: bytes) -> str:
    """Return the name of a block."""
    return hashlib.sha256(block_json).hexdigest()


def conversation_prefix(namespace: str, owner: ConversationOwner) -> str:
    """The folder of an owner's blocks. A session's id may be longer than a folder's name, so it is a digest. Its first
    two characters are a folder, so that a sweep lists a 256th of all sessions at a time.
    """
    name = hashlib.sha256(_purpose(owner).encode()).hexdigest()[:32]
    return f"{conversations_prefix(namespace)}/{name[:2]}/{name[2:]}"


def conversations_prefix(namespace: str) -> str:
    """Return the folder of all conversations of a Temporal namespace."""
    return f"{CONVERSATIONS}/{as_folder(namespace)}"


def sealed(sealer: SecretSealer, owner: ConversationOwner, block_json: bytes) -> bytes:
    """Return the object of a block."""
    key_id, secret = sealer.seal_bytes(zstandard.compress(block_json), purpose=_purpose(owner))
    return _OwnerLine(owner=owner, key_id=key_id).model_dump_json().encode() + b"\n" + secret


def opened(sealer: SecretSealer, owner: ConversationOwner, digest: str, data: bytes) -> Block:
    """Return the block of an object. Raises `ConversationDamaged`."""
    line, _, secret = data.partition(b"\n")
    try:
        key_id = _OwnerLine.model_validate_json(line).key_id
        packed = sealer.open_bytes(key_id, secret, purpose=_purpose(owner))
        plain = zstandard.ZstdDecompressor().decompress(packed, max_output_size=MAX_BLOCK_BYTES)
        if digest_of(plain) != digest:
            raise ConversationDamaged("A part of the conversation was changed in the store.")
        return Block.model_validate_json(plain)
    except SealError as error:
        raise ConversationDamaged(f"A part of the conversation cannot be opened: {error}") from error
    except (ValidationError, zstandard.ZstdError) as error:
        raise ConversationDamaged("A part of the conversation cannot be read.") from error


def owner_of(data: bytes) -> ConversationOwner | None:
    """Return the owner that an object names; None when it is no block."""
    try:
        return _OwnerLine.model_validate_json(data.partition(b"\n")[0]).owner
    except ValidationError:
        return None


def _purpose(owner: ConversationOwner) -> str:
    return f"conversation:{len(owner.caller_id)}:{owner.caller_id}:{owner.session_id}"


BlockAfter = Callable[[ConversationRef], Block]
"""Gives the block that follows a conversation."""
_WRITTEN_AT_ONCE = 32
CACHE_BYTES = 32 * 1024 * 1024
"""Blocks that a process keeps in memory, by the size of their objects: a step then reads only what is new."""


class ConversationBlocks:
    """The conversations of one Temporal namespace. Reading raises `ConversationDamaged`; everything raises the errors
    of `OutputObjects`.
    """

    def __init__(self, objects: OutputObjects, sealer: SecretSealer, *, namespace: str) -> None:
        self._objects = objects
        self._sealer = sealer
        self.namespace = namespace
        self._cache: LRUCache[str, tuple[Block, int]] = LRUCache(CACHE_BYTES, getsizeof=operator.itemgetter(1))

    async def append(self, owner: ConversationOwner, conversation: ConversationRef, block: Block) -> ConversationRef:
        """Add a block, and return the conversation that ends with it. The same block again is the same object.
        `block.before` is filled in here. A block with `summary_of` begins a chain: append it to `ConversationRef()`.
        Raises `ToolFailure` when the messages are too large.
        """
        before = await self._before(owner, conversation.head)
        content, longer = _placed(conversation, before, block)
        size = await self._put(owner, content)
        placed = block.model_copy(update={"before": before})
        self._remember(self._key(owner, digest_of(content)), placed, size)
        return longer

    async def begin(self, owner: ConversationOwner, blocks: Sequence[BlockAfter]) -> tuple[ConversationRef, ...]:
        """Write a new conversation; what it is after each of its blocks. Raises `ToolFailure` as `append` does. A block
        is named by its content, so all are placed first and then written many at once.
        """
        conversation, before = ConversationRef(), tuple[str, ...]()
        conversations: list[ConversationRef] = []
        waiting: list[bytes] = []
        for block_after in blocks:
            content, conversation = _placed(conversation, before, block_after(conversation))
            before = (*before, conversation.head or "")[-MAX_BEFORE:]
            conversations.append(conversation)
            waiting.append(content)
            if len(waiting) == _WRITTEN_AT_ONCE:
                await asyncio.gather(*(self._put(owner, one) for one in waiting))
                waiting.clear()
        await asyncio.gather(*(self._put(owner, one) for one in waiting))
        return tuple(conversations)

    async def keep_prompt(self, owner: ConversationOwner, prompt: PromptHead) -> str:
        """Keep the beginning of a session's prompts; its digest. Raises `ToolFailure` when it is too large."""
        block = Block(messages=(), prompt=prompt)
        content, placed = _placed(ConversationRef(), (), block)
        self._remember(self._key(owner, digest_of(content)), block, await self._put(owner, content))
        return placed.head or ""

    async def prompt(self, owner: ConversationOwner, digest: str) -> PromptHead:
        """Return the beginning of a session's prompts."""
        return (await self.block(owner, digest)).prompt or PromptHead()

    async def _put(self, owner: ConversationOwner, content: bytes) -> int:
        """Write a block; the size of its object in bytes."""
        data = await asyncio.to_thread(sealed, self._sealer, owner, content)
        await self._objects.put(self._key(owner, digest_of(content)), data)
        return len(data)

    async def messages(self, owner: ConversationOwner, conversation: ConversationRef) -> tuple[ModelMessage, ...]:
        """Return the messages for a model, oldest first: a summary replaces the messages it summarises."""
        newest_first = [block async for block in self._chain(owner, conversation.head)]
        return tuple(message for block in reversed(newest_first) for message in block.messages)

    async def latest_turn(self, owner: ConversationOwner, conversation: ConversationRef) -> tuple[ModelMessage, ...]:
        """Return the messages of the last turn for a model, without summaries and the messages they replace."""
        newest_first: list[Block] = []
        async for block in self._chain(owner, conversation.head):
            if block.summary_of is not None:
                break
            newest_first.append(block)
            if not block.continues:
                break
        return tuple(message for block in reversed(newest_first) for message in block.messages)

    async def beginning(self, owner: ConversationOwner, conversation: ConversationRef) -> Block | None:
        """The first block that a model is sent: a summary, or the first turn. None when the conversation is empty."""
        oldest = None
        async for block in self._chain(owner, conversation.head):
            oldest = block
        return oldest

    async def newest_first(self, owner: ConversationOwner, conversation: ConversationRef) -> AsyncGenerator[Block]:
        """Yield the turns of the conversation, each as one block; also those that a summary replaces."""
        newer: Block | None = None
        async with aclosing(self._written(owner, conversation)) as blocks:
            async for block in blocks:
                turn = block if newer is None else _joined(block, newer)
                newer = turn if turn.continues else None
                if newer is None:
                    yield turn

    async def turn(self, owner: ConversationOwner, conversation: ConversationRef) -> Block | None:
        """Return the last turn of the conversation, as one block; None when the conversation is empty."""
        async with aclosing(self.newest_first(owner, conversation)) as turns:
            return await anext(turns, None)

    async def block(self, owner: ConversationOwner, digest: str) -> Block:
        """Return one block. Raises `ConversationDamaged` when it is missing, too."""
        key = self._key(owner, digest)
        if (known := self._known(key)) is not None:
            return known
        data = await self._objects.get(key)
        if data is None:
            raise ConversationDamaged("A part of the conversation is missing in the store.")
        block = await asyncio.to_thread(opened, self._sealer, owner, digest, data)
        self._remember(key, block, len(data))
        return block

    async def is_there(self, owner: ConversationOwner, digest: str) -> bool:
        """Return True if a block is in the store: the blocks of a session are removed together."""
        return await self._objects.size(self._key(owner, digest)) is not None

    async def written(self, owner: ConversationOwner) -> AsyncGenerator[Block]:
        """Yield all undamaged blocks of the owner's session, also those that no turn continues."""
        async for entry in self._objects.list(conversation_prefix(self.namespace, owner)):
            with suppress(ConversationDamaged):
                yield await self.block(owner, entry.key.rpartition("/")[2])

    async def remove(self, owner: ConversationOwner) -> None:
        """Remove everything of the owner's session."""
        prefix = conversation_prefix(self.namespace, owner)
        await self._objects.delete([entry.key async for entry in self._objects.list(prefix)])

    async def _written(self, owner: ConversationOwner, conversation: ConversationRef) -> AsyncGenerator[Block]:
        """Yield the blocks that turns wrote, newest first."""
        head = conversation.head
        while head is not None:
            head, begun = None, head
            async for block in self._chain(owner, begun):
                if block.summary_of is None:
                    yield block
                else:
                    head = block.summary_of.head

    async def _chain(self, owner: ConversationOwner, head: str | None) -> AsyncGenerator[Block]:
        """From `head` to the beginning of its chain. The blocks that one names are read at once."""
        waiting: Sequence[str] = [head] if head else []
        while waiting:
            found = await self._blocks(owner, waiting)
            for block in reversed(found):
                yield block
            waiting = found[0].before

    async def _blocks(self, owner: ConversationOwner, digests: Sequence[str]) -> Sequence[Block]:
        """These blocks, read at once. A conversation that is in memory costs no task per block."""
        known = [self._known(self._key(owner, digest)) for digest in digests]
        found = [block for block in known if block is not None]
        if len(found) == len(digests):
            return found
        return await asyncio.gather(*(self.block(owner, digest) for digest in digests))

    async def _before(self, owner: ConversationOwner, head: str | None) -> tuple[str, ...]:
        if head is None:
            return ()
        return (*(await self.block(owner, head)).before, head)[-MAX_BEFORE:]

    def _known(self, key: str) -> Block | None:
        found = self._cache.get(key)
        return found[0] if found is not None else None

    def _remember(self, key: str, block: Block, size: int) -> None:
        if key not in self._cache and size <= CACHE_BYTES:
            self._cache[key] = (block, size)

    def _key(self, owner: ConversationOwner, digest: str) -> str:
        return f"{conversation_prefix(self.namespace, owner)}/{digest}"


def _placed(conversation: ConversationRef, before: tuple[str, ...], block: Block) -> tuple[bytes, ConversationRef]:
    """Return the content of a block that stands after `conversation`, and the longer one. Raises `ToolFailure`."""
    content = to_json(block.model_copy(update={"before": before}), exclude_none=True)
    if len(content) > MAX_BLOCK_BYTES:
        message = f"The messages have {len(content)} bytes; the limit is {MAX_BLOCK_BYTES}."
        raise ToolFailure.of(ErrorCategory.VALIDATION, message)
    size = sum(len(to_json(message, exclude_none=True)) for message in block.messages)
    longer = ConversationRef(
        head=digest_of(content),
        messages=conversation.messages + len(block.messages),
        size_bytes=conversation.size_bytes + size,
    )
    return content, longer


def _joined(earlier: Block, later: Block) -> Block:
    """Two blocks of one turn as one."""
    messages = (*earlier.messages, *later.messages[later.repeated :])
    changes = {"messages": messages, "continues": earlier.continues, "repeated": earlier.repeated}
    return later.model_copy(update=changes)


Reason = Literal["expired", "deleted"]


async def remove_conversation(
    objects: OutputObjects, blocks: ConversationBlocks, owner: ConversationOwner, *, reason: Reason
) -> None:
    """Remove all that a session has kept. The tombstone is written first: a reader in between learns the reason."""
    await leave_tombstone(objects, blocks.namespace, owner, reason)
    await blocks.remove(owner)


async def leave_tombstone(objects: OutputObjects, namespace: str, owner: ConversationOwner, reason: Reason) -> None:
    """Write why a session's conversation is gone."""
    tombstone = Tombstone(reason=reason, at=datetime.now(UTC))
    await objects.put(_tombstone_key(namespace, owner), tombstone.model_dump_json().encode())


async def why_removed(objects: OutputObjects, namespace: str, owner: ConversationOwner) -> Reason | None:
    """Return the reason why a session's conversation was removed; None if it was not, or too long ago."""
    text = await objects.get(_tombstone_key(namespace, owner))
    if text is None:
        return None
    try:
        return Tombstone.model_validate_json(text).reason
    except ValidationError:
        return "expired"


def _tombstone_key(namespace: str, owner: ConversationOwner) -> str:
    name = hashlib.sha256(f"{namespace}\n{owner.workflow_id}".encode()).hexdigest()[:32]
    return f"tombstones/{scope_of(owner.caller_id)}/session-{name}.json"


_OWNER_LINE_BYTES = 8_192


class ConversationSweep:
    """Removes what no session needs. Objects younger than the grace period stay: their session may just begin."""

    def __init__(
        self, objects: OutputObjects, blocks: ConversationBlocks, tasks: TemporalTasks, *, grace: timedelta
    ) -> None:
        self._objects = objects
        self._blocks = blocks
        self._tasks = tasks
        self._grace = grace

    async def page(self, after: str, page_size: int) -> tuple[Tally, str | None]:
        """Sweep the shards after one of them until `page_size` objects were seen; the shard to continue from. A shard
        is swept as a whole: each is listed once in a sweep, and there are 256 of them at most.
        """
        tally = Tally()
        root = conversations_prefix(self._blocks.namespace)
        shards = [shard for shard in await self._objects.folders(root) if shard > after]
        for shard in shards:
            for folder in await self._objects.folders(f"{root}/{shard}"):
                await self._sweep(f"{root}/{shard}/{folder}", tally)
            if tally.scanned >= page_size and shard != shards[-1]:
                return tally, shard
        return tally, None

    async def _sweep(self, prefix: str, tally: Tally) -> None:
        entries = await self._listed(prefix)
        tally.scanned += len(entries)
        if not entries or not self._all_quiet(entries):
            return
        first = entries[0]
        owner = owner_of(await self._objects.get_range(first.key, 0, min(first.size, _OWNER_LINE_BYTES)))
        if owner is None or await self._tasks.running({owner.workflow_id}):
            return
        # Listed again: a session with this id may have been started since.
        entries = await self._listed(prefix)
        if self._all_quiet(entries):
            await leave_tombstone(self._objects, self._blocks.namespace, owner, "expired")
            await delete_counted(self._objects, tally, entries)

    async def _listed(self, prefix: str) -> list[StoredObject]:
        return [entry async for entry in self._objects.list(prefix)]

    def _all_quiet(self, entries: list[StoredObject]) -> bool:
        quiet_since = datetime.now(UTC) - self._grace
        return all(entry.modified_at <= quiet_since for entry in entries)
