"""Results of a batch: one stored output that grows and has a locator from its first row. Closed parts never change. The
last part, the tail, is rewritten under a new name until it is large enough, and the manifest is written last. An
attempt builds on the parts in its state, so rows of another attempt are never repeated.
"""

import asyncio
import hashlib
import time
from array import array
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from datetime import UTC, datetime, timedelta

from pydantic import ValidationError

from outlast.activities.batches import contracts as batches
from outlast.activities.batches.items import ItemList, LinesDamaged
from outlast.activities.contracts import Contract
from outlast.activities.object_store.objects import OutputObjects, StoredPayload, part_key, payload_key
from outlast.activities.outputs.contracts import OutputScope
from outlast.activities.outputs.frames import Cutter, build_part, compress
from outlast.activities.outputs.manifest import (
    Locator,
    OutputManifest,
    StoredPart,
    content_digest,
    locator_for,
    manifest_text,
    scope_of,
    upload_name,
)
from outlast.activities.outputs.reader import OutputReader, manifest_key, tombstone_key
from outlast.activities.outputs.summaries import summarise

ROWS_CONTENT_TYPE = "application/x-ndjson"
CLOSED_BYTES = 2 * 1024 * 1024
"""The tail is closed when it has so much content."""
_READERS_SECONDS = 600.0
"""The time that a tail is kept after a longer one has replaced it: a client may be reading it."""


_CHAINED = 256
"""Closed parts that one object names; it names the object before it, so that none is written again and again."""


class _Parts(Contract):
    before: str | None = None
    parts: tuple[StoredPart, ...] = ()


def results_scope(place: batches.BatchPlace) -> OutputScope:
    """Return the owner of the results, and the batch in the place of a call."""
    return OutputScope(caller_id=place.caller_id, tool_call_id=place.batch_id, task_id=place.batch_id)


def results_locator(caller_id: str, batch_id: str) -> Locator:
    """Return the locator of a batch's results."""
    scope = OutputScope(caller_id=caller_id, tool_call_id=batch_id, task_id=batch_id)
    return locator_for(scope, "rows", batches.results_series(batch_id))


class ResultsWriter:
    """Appends rows. Raises what `OutputObjects` raises, and `LinesDamaged` when the state's parts are gone."""

    def __init__(
        self, objects: OutputObjects, place: batches.BatchPlace, state: batches.ResultsState, *, namespace: str
    ) -> None:
        self._objects = objects
        self._place = place
        self._namespace = namespace
        self._scope = results_scope(place)
        self._upload = upload_name(self._scope, f"results {state.leg}")
        self.state = state
        self._closed: tuple[StoredPart, ...] | None = None
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

    async def close(self) -> OutputManifest:
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

    async def _loaded(self) -> tuple[tuple[StoredPart, ...], bytes]:
        """Return the closed parts, and the content of the tail."""
        if self._closed is None or self._content is None:
            self._closed = await self._closed_parts()
            tail = self.state.tail
            self._content = b"" if tail is None else await self._content_of(tail)
        return self._closed, self._content

    async def _closed_parts(self) -> tuple[StoredPart, ...]:
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

    async def _stored(self, content: bytes, number: int) -> StoredPart:
        data, index, digest = await asyncio.to_thread(_built, content)
        key = part_key(scope_of(self._scope.caller_id), self._upload, number, digest)
        await self._objects.put(key, data)
        return StoredPart(key=key, size=len(data), raw_size=index.raw_size, rows=index.rows, digest=index.digest)

    async def _keep_part(self, part: StoredPart) -> str:
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

    async def _manifest(self) -> OutputManifest:
        tail = self.state.tail
        closed = self._closed if self._closed is not None else await self._closed_parts()
        return self._manifest_of((*closed, *((_as_part(tail),) if tail is not None else ())))

    def _manifest_of(self, parts: tuple[StoredPart, ...]) -> OutputManifest:
        now = datetime.now(UTC)
        rows = sum(part.rows for part in parts)
        return OutputManifest(
            locator=str(results_locator(self._scope.caller_id, self._place.batch_id)),
            **self._scope.model_dump(),
            kind="rows",
            content_type=ROWS_CONTENT_TYPE,
            digest=content_digest(parts),
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

    async def _put(self, manifest: OutputManifest) -> None:
        locator = results_locator(self._scope.caller_id, self._place.batch_id)
        await self._objects.put(manifest_key(locator), manifest_text(manifest))
        await self._objects.delete([tombstone_key(locator)])


def _as_part(tail: batches.StoredTail) -> StoredPart:
    return StoredPart.model_validate(tail.model_dump())


def _built(content: bytes):
    cutter = Cutter(aligned=True)
    frames = [frame for part in (*cutter.add(content), *cutter.finish()) for frame in part]
    part = build_part(compress(frames, aligned=True))
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
            wanted = self._request.categories
            again = row.status == "failed" and (not wanted or (row.error is not None and row.error.category in wanted))
        else:
            again = row.status == "cancelled"
        if again:
            self._again.append(row.index)
            self._attempts.append(row.attempts)
        else:
            self._counts = self._counts.plus(row.status, row.rows or 0)
        return again
