"""What a batch stores: its items and plan as blocks, and its results as one output that grows.

Items of a batch and its plan, stored as blocks of JSON lines.

    payloads/<namespace>/<batch id>/<sha256>    a block (zstd, up to 256 KB of lines), or the index (JSON)

The plan lists the items to run. Blocks lie beside the payloads of the batch's workflow, so the sweep keeps them as long
as Temporal keeps the workflow. A block's name is the SHA-256 of its content, which every read verifies.

Results of a batch: one stored output that grows and has a locator from its first row. Closed parts never change. The
last part, the tail, is rewritten under a new name until it is large enough, and the manifest is written last. An
attempt builds on the parts in its state, so rows of another attempt are never repeated.
"""

import asyncio
import hashlib
import json
import time
from array import array
from bisect import bisect_right
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import accumulate
from typing import cast

import zstandard
from cachetools import LRUCache
from pydantic import Field, ValidationError

from outlast.activities.batches import contracts as batches
from outlast.activities.batches.contracts import BatchPlace, BatchState, ItemLine, Lines
from outlast.activities.contracts import Contract, ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.object_store import OutputObjects, StoredPayload, part_key, payload_key
from outlast.activities.outputs import output_format
from outlast.activities.outputs.contracts import OutputScope
from outlast.activities.outputs.reader import OutputReader, manifest_key, tombstone_key
from outlast.activities.outputs.summaries import summarise

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


ROWS_CONTENT_TYPE = "application/x-ndjson"
CLOSED_BYTES = 2 * 1024 * 1024
"""The tail is closed when it has so much content."""
_READERS_SECONDS = 600.0
"""The time that a tail is kept after a longer one has replaced it: a client may be reading it."""


_CHAINED = 256
"""Closed parts that one object names; it names the object before it, so that none is written again and again."""


class _Parts(Contract):
    before: str | None = None
    parts: tuple[output_format.StoredPart, ...] = ()


def results_scope(place: batches.BatchPlace) -> OutputScope:
    """Return the owner of the results, and the batch in the place of a call."""
    return OutputScope(caller_id=place.caller_id, tool_call_id=place.batch_id, task_id=place.batch_id)


def results_locator(caller_id: str, batch_id: str) -> output_format.Locator:
    """Return the locator of a batch's results."""
    scope = OutputScope(caller_id=caller_id, tool_call_id=batch_id, task_id=batch_id)
    return output_format.locator_for(scope, "rows", batches.results_series(batch_id))


class ResultsWriter:
    """Appends rows. Raises what `OutputObjects` raises, and `LinesDamaged` when the state's parts are gone."""

    def __init__(
        self, objects: OutputObjects, place: batches.BatchPlace, state: batches.ResultsState, *, namespace: str
    ) -> None:
        self._objects = objects
        self._place = place
        self._namespace = namespace
        self._scope = results_scope(place)
        self._upload = output_format.upload_name(self._scope, f"results {state.leg}")
        self.state = state
        self._closed: tuple[output_format.StoredPart, ...] | None = None
        self._content: bytes | None = None
        self._old: deque[tuple[float, str]] = deque()

    async def append(self, rows: Sequence[bytes], *, publish: bool = True) -> batches.ResultsState:
        """Add rows, without their newlines; returns the state that has them. With `publish` readers see them."""
        closed, content = await self._loaded()
        content += b"".join(row + b"\n" for row in rows)
        state = self.state
        if len(content) >= CLOSED_BYTES:
            closed = (*closed, await self._stored(content, len(closed)))
            parts = await self._keep_part(closed[-1])
            state = state.model_copy(update={"parts": parts, "closed": len(closed), "tail": None})
            content = b""
        elif content:
            tail = batches.StoredTail.model_validate((await self._stored(content, len(closed))).model_dump())
            state = state.model_copy(update={"tail": tail})
        self._replace_tail(state)
        self._closed, self._content = closed, content
        self.state = state.model_copy(update={"rows": state.rows + len(rows)})
        if publish:
            await self.publish()
        return self.state

    async def publish(self) -> None:
        """Let readers see what there is."""
        await self._put(await self._manifest())
        # Replaced tails that no client reads. Those of a process that died are left for the sweep.
        while self._old and self._old[0][0] < time.monotonic() - _READERS_SECONDS:
            await self._objects.delete([self._old.popleft()[1]])

    async def close(self) -> output_format.OutputManifest:
        """Publish the rows with a description of their fields: there will be no more for now."""
        manifest = await self._manifest()
        if manifest.rows:
            found = await summarise(OutputReader(self._objects, manifest))
            manifest = manifest.model_copy(update={"fields": found.fields, "summary": found.summary})
        await self._put(manifest)
        return manifest

    async def reader(self) -> OutputReader:
        """Reads the rows of the state."""
        return OutputReader(self._objects, await self._manifest())

    def after(self) -> "ResultsWriter":
        """Return the writer of the results of the next leg, from their first row."""
        state = batches.ResultsState(leg=self.state.leg + 1)
        return ResultsWriter(self._objects, self._place, state, namespace=self._namespace)

    async def _loaded(self) -> tuple[tuple[output_format.StoredPart, ...], bytes]:
        """Return the closed parts, and the content of the tail."""
        if self._closed is None or self._content is None:
            self._closed = await self._closed_parts()
            tail = self.state.tail
            self._content = b"" if tail is None else await self._content_of(tail)
        return self._closed, self._content

    async def _closed_parts(self) -> tuple[output_format.StoredPart, ...]:
        """Newest object first; each names the one before it."""
        lists: list[_Parts] = []
        digest = self.state.parts
        while digest is not None:
            lists.append(await self._parts_of(digest))
            digest = lists[-1].before
        return tuple(part for found in reversed(lists) for part in found.parts)

    async def _parts_of(self, digest: str) -> _Parts:
        text = await self._objects.get(self._parts_key(digest))
        if text is None or hashlib.sha256(text).hexdigest() != digest:
            raise LinesDamaged("The list of the parts of a batch's results is not in the store, or was changed.")
        try:
            return _Parts.model_validate_json(text)
        except ValidationError as error:
            raise LinesDamaged("The list of the parts of a batch's results cannot be read.") from error

    async def _content_of(self, tail: batches.StoredTail) -> bytes:
        manifest = self._manifest_of((_as_part(tail),))
        return b"".join([piece async for piece in OutputReader(self._objects, manifest).bytes()])

    async def _stored(self, content: bytes, number: int) -> output_format.StoredPart:
        data, index, digest = await asyncio.to_thread(_built, content)
        key = part_key(output_format.scope_of(self._scope.caller_id), self._upload, number, digest)
        await self._objects.put(key, data)
        return output_format.StoredPart(
            key=key, size=len(data), raw_size=index.raw_size, rows=index.rows, digest=index.digest
        )

    async def _keep_part(self, part: output_format.StoredPart) -> str:
        latest = await self._parts_of(self.state.parts) if self.state.parts is not None else _Parts()
        if len(latest.parts) < _CHAINED:
            longer = latest.model_copy(update={"parts": (*latest.parts, part)})
        else:
            longer = _Parts(before=self.state.parts, parts=(part,))
        text = longer.model_dump_json().encode()
        digest = hashlib.sha256(text).hexdigest()
        await self._objects.put(self._parts_key(digest), text)
        return digest

    def _parts_key(self, digest: str) -> str:
        return payload_key(StoredPayload(self._namespace, self._place.batch_id, digest))

    def _replace_tail(self, state: batches.ResultsState) -> None:
        before = self.state.tail
        if before is not None and (state.tail is None or state.tail.key != before.key):
            self._old.append((time.monotonic(), before.key))

    async def _manifest(self) -> output_format.OutputManifest:
        tail = self.state.tail
        closed = self._closed if self._closed is not None else await self._closed_parts()
        return self._manifest_of((*closed, *((_as_part(tail),) if tail is not None else ())))

    def _manifest_of(self, parts: tuple[output_format.StoredPart, ...]) -> output_format.OutputManifest:
        now = datetime.now(UTC)
        rows = sum(part.rows for part in parts)
        return output_format.OutputManifest(
            locator=str(results_locator(self._scope.caller_id, self._place.batch_id)),
            **self._scope.model_dump(),
            kind="rows",
            content_type=ROWS_CONTENT_TYPE,
            digest=output_format.content_digest(parts),
            raw_size=sum(part.raw_size for part in parts),
            stored_size=sum(part.size for part in parts),
            rows=rows,
            count=rows,
            summary=f"Results of {self._place.batch_id}: {rows} rows so far, one for each item that has ended.",
            parts=parts,
            series=batches.results_series(self._place.batch_id),
            created_at=now,
            expires_at=now + timedelta(seconds=self._place.ttl_seconds),
        )

    async def _put(self, manifest: output_format.OutputManifest) -> None:
        locator = results_locator(self._scope.caller_id, self._place.batch_id)
        await self._objects.put(manifest_key(locator), output_format.manifest_text(manifest))
        await self._objects.delete([tombstone_key(locator)])


def _as_part(tail: batches.StoredTail) -> output_format.StoredPart:
    return output_format.StoredPart.model_validate(tail.model_dump())


def _built(content: bytes):
    cutter = output_format.Cutter(aligned=True)
    frames = [frame for part in (*cutter.add(content), *cutter.finish()) for frame in part]
    part = output_format.build_part(output_format.compress(frames, aligned=True))
    return part.data, part.index, hashlib.sha256(part.data).hexdigest()


class RetriedItems:
    """Items of a batch that run again, whose rows are removed from the results. A retry runs failed items again; a
    resume runs cancelled items and those that never started. Memory grows by 16 bytes for each item that runs again.
    """

    def __init__(self, request: batches.LegInput, results: ResultsWriter) -> None:
        self._request = request
        self._results = results
        self._again = array("q")
        self._attempts = array("q")
        self._counts = batches.Counts()

    async def kept(self) -> AsyncGenerator[list[bytes]]:
        """Rows that stay in the results, in batches."""
        async for batch in (await self._results.reader()).row_batches():
            yield [row for row in batch if not self._runs_again(row)]

    async def planned(self, items: ItemList) -> AsyncGenerator[list[int]]:
        """Index and attempts of the items that run again, then of those without a row. Read `kept` first."""
        for pair in zip(self._again, self._attempts, strict=True):
            yield list(pair)
        state = self._request.state
        for slot in state.under_way:
            yield [slot.index, slot.attempt - 1]
        beyond = {*state.beyond, *(slot.position for slot in state.under_way)}
        position = state.cursor
        async for pair in items.planned_from(position):
            if position not in beyond:
                yield pair
            position += 1

    def state_with(self, plan: batches.Lines, results: batches.ResultsState) -> batches.BatchState:
        """State of the batch before these items run."""
        is_retry = self._request.kind == "retry"
        before = self._request.state
        return batches.BatchState(
            plan=plan,
            plan_end=len(self._again) if is_retry else plan.count,
            counts=self._counts,
            cost_usd=before.cost_usd,
            highest_usd=before.highest_usd,
            results=results,
            stop_before=(before.stop or before.stop_before) if is_retry else None,
            stop_before_words=(before.stop_words or before.stop_before_words) if is_retry else None,
        )

    def _runs_again(self, text: bytes) -> bool:
        row = batches.ItemRow.model_validate_json(text)
        if self._request.kind == "retry":
            again = row.status == "failed" and self._is_wanted(row.error)
        else:
            again = row.status == "cancelled"
        if again:
            self._again.append(row.index)
            self._attempts.append(row.attempts)
        else:
            self._counts = self._counts.plus(row.status, row.rows or 0)
        return again

    def _is_wanted(self, error: ErrorEnvelope | None) -> bool:
        """Return whether a retry runs an item again that failed with `error`: not if it may have been executed."""
        category, wanted = error.category if error is not None else None, self._request.categories
        return category in wanted if wanted else category is not ErrorCategory.OUTCOME_UNKNOWN
