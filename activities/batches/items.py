"""Items of a batch and its plan, stored as blocks of JSON lines.

    payloads/<namespace>/<batch id>/<sha256>    a block (zstd, up to 256 KB of lines), or the index (JSON)

The plan lists the items to run. Blocks lie beside the payloads of the batch's workflow, so the sweep keeps them as long
as Temporal keeps the workflow. A block's name is the SHA-256 of its content, which every read verifies.
"""

import asyncio
import hashlib
import json
from bisect import bisect_right
from collections.abc import AsyncGenerator, AsyncIterable
from itertools import accumulate
from typing import cast

import zstandard
from cachetools import LRUCache
from pydantic import Field, ValidationError

from outlast.activities.batches.contracts import BatchPlace, BatchState, ItemLine, Lines
from outlast.activities.contracts import Contract
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.object_store.objects import OutputObjects, StoredPayload, payload_key

BLOCK_BYTES = 256 * 1024
BLOCK_LINES = 5_000
_MAX_BLOCK_BYTES = 64 * 1024 * 1024
_CACHED_BLOCKS = 4
_CACHED_ITEMS = 512


class _Block(Contract):
    sha256: str
    count: int = Field(ge=1)


class _Index(Contract):
    blocks: tuple[_Block, ...] = ()


class LinesDamaged(ToolFailure):
    """A block is missing or was changed in the store."""

    def __init__(self, problem: str) -> None:
        super().__init__(
            ToolFailure.of(
                ErrorCategory.FILESYSTEM,
                problem,
                "Operators: every API and worker process has to use the same store (OUTLAST_STORE_URL).",
                retryable=True,
            ).envelope
        )


class LineWriter:
    """Writes lines as they come; memory holds one block."""

    def __init__(self, objects: OutputObjects, *, namespace: str, batch_id: str) -> None:
        self._objects = objects
        self._namespace = namespace
        self._batch_id = batch_id
        self._waiting: list[bytes] = []
        self._size = 0
        self._blocks: list[_Block] = []

    async def add(self, line: bytes) -> None:
        """Add one line, without its end. Raises what `OutputObjects` raises."""
        self._waiting.append(line)
        self._size += len(line) + 1
        if self._size >= BLOCK_BYTES or len(self._waiting) >= BLOCK_LINES:
            await self._close_block()

    async def finish(self) -> Lines:
        """Write what is left, and the index."""
        if self._waiting:
            await self._close_block()
        index = _Index(blocks=tuple(self._blocks)).model_dump_json().encode()
        digest = await self._put(index)
        return Lines(digest=digest, count=sum(block.count for block in self._blocks))

    async def _close_block(self) -> None:
        lines, self._waiting, self._size = self._waiting, [], 0
        packed = await asyncio.to_thread(lambda: zstandard.compress(b"\n".join(lines)))
        self._blocks.append(_Block(sha256=await self._put(packed), count=len(lines)))

    async def _put(self, content: bytes) -> str:
        digest = hashlib.sha256(content).hexdigest()
        await self._objects.put(payload_key(StoredPayload(self._namespace, self._batch_id, digest)), content)
        return digest


class LineReader:
    """Reads lines by their number, a block at a time. Raises `LinesDamaged`, and what `OutputObjects` raises."""

    def __init__(self, objects: OutputObjects, lines: Lines, *, namespace: str, batch_id: str) -> None:
        """Read `lines`, which a `LineWriter` wrote for the same batch."""
        self._objects = objects
        self._lines = lines
        self._namespace = namespace
        self._batch_id = batch_id
        self._index: tuple[_Block, ...] | None = None
        self._ends: list[int] = []
        self._cache: LRUCache[str, list[bytes]] = LRUCache(_CACHED_BLOCKS)

    async def line(self, number: int) -> bytes:
        """Return one line; the first is 0."""
        block, offset = await self._place(number)
        return (await self._read(block))[offset]

    async def _place(self, number: int) -> tuple[_Block, int]:
        if self._index is None:
            try:
                self._index = _Index.model_validate_json(await self._get(self._lines.digest)).blocks
            except ValidationError as error:
                raise LinesDamaged("The list of a batch's blocks cannot be read.") from error
            self._ends = list(accumulate(block.count for block in self._index))
        if not self._ends or not 0 <= number < self._ends[-1]:
            raise LinesDamaged(f"A batch has no line {number}: its list of blocks is shorter than it was.")
        at = bisect_right(self._ends, number)
        return self._index[at], number - (self._ends[at - 1] if at else 0)

    async def _read(self, block: _Block) -> list[bytes]:
        known = self._cache.get(block.sha256)
        if known is not None:
            return known
        packed = await self._get(block.sha256)
        lines = await asyncio.to_thread(_unpacked, packed)
        if len(lines) != block.count:
            raise LinesDamaged("A block of a batch does not have the number of lines in its list.")
        self._cache[block.sha256] = lines
        return lines

    async def _get(self, digest: str) -> bytes:
        content = await self._objects.get(payload_key(StoredPayload(self._namespace, self._batch_id, digest)))
        if content is None or hashlib.sha256(content).hexdigest() != digest:
            raise LinesDamaged(f"A block of a batch {'is not in' if content is None else 'was changed in'} the store.")
        return content


async def written_lines(writer: LineWriter, lines: AsyncIterable[list[int]]) -> Lines:
    """Write lists of numbers."""
    async for line in lines:
        await writer.add(json.dumps(line, separators=(",", ":")).encode())
    return await writer.finish()


def _unpacked(packed: bytes) -> list[bytes]:
    try:
        return zstandard.ZstdDecompressor().decompress(packed, max_output_size=_MAX_BLOCK_BYTES).split(b"\n")
    except zstandard.ZstdError as error:
        raise LinesDamaged("A block of a batch cannot be decompressed.") from error


class ItemList:
    """Items by index, and the plan: positions of the items to run. Raises what `LineReader` raises."""

    def __init__(self, objects: OutputObjects, place: BatchPlace, state: BatchState, *, namespace: str) -> None:
        self._place = place
        self._count = state.plan.count if state.plan is not None else place.items.count
        self._items = LineReader(objects, place.items, namespace=namespace, batch_id=place.batch_id)
        plan = state.plan
        self._plan = LineReader(objects, plan, namespace=namespace, batch_id=place.batch_id) if plan else None
        self._cache: LRUCache[int, ItemLine] = LRUCache(_CACHED_ITEMS)

    async def item(self, index: int) -> ItemLine:
        """Return one item."""
        found = self._cache.get(index)
        if found is None:
            try:
                found = ItemLine.model_validate_json(await self._items.line(index))
            except ValidationError as error:
                raise LinesDamaged("An item of a batch cannot be read.") from error
            self._cache[index] = found
        return found

    async def planned(self, position: int) -> tuple[int, int]:
        """Index of the item at this position of the plan, and the number of its earlier attempts."""
        if self._plan is None:
            return position, 0
        index, attempts = cast(list[int], json.loads(await self._plan.line(position)))
        return index, attempts

    async def planned_from(self, position: int) -> AsyncGenerator[list[int]]:
        """Index and number of attempts of each item of the plan, starting at `position`."""
        for at in range(position, self._count):
            yield list(await self.planned(at))
