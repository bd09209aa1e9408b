"""Reads, verifies and removes outputs.

Reads and removes outputs. Every byte that is read is verified against the digest in the manifest first. A removed
output leaves a tombstone, so that its locator still gives the reason.

Verifies stored outputs against docs/output-format.md: every byte of a part, and the values of the manifest.
"""

import asyncio
import hashlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, Protocol

from cachetools import LRUCache
from pydantic import ValidationError

from outlast.activities.contracts import Contract
from outlast.activities.failures.exceptions import OutputDamaged, OutputError
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs import output_format


class Held(Protocol):
    """Room that is held."""

    def holds(self, size_bytes: int) -> None:
        """Set the size, when less or more than expected was read."""


class Room(Protocol):
    """Room that several readers share. A reader for a client that may be slow takes room before each read."""

    @property
    def is_scarce(self) -> bool:
        """True while other readers wait for room: no reader should read ahead then."""
        ...

    def hold(self, size_bytes: int) -> AbstractAsyncContextManager[Held]:
        """Wait for room for `size_bytes`, and keep it until the end of the block."""
        ...


_TAIL_BYTES = 8 * 1024
"""Enough for most indexes, so that reading one takes a single request."""
_CACHED_INDEXES = 512
_COPIES_OF_ROWS = 3
"""The frame, its rows, and what a reader makes of them."""
_MOST_AHEAD_BYTES = 4 * output_format.FRAME_BYTES
"""The maximum that a reader with limited room reads at once. It begins with a frame, and reads more over time."""


@dataclass(frozen=True)
class _Span:
    """The requested range of a part, in rows or in bytes, relative to the part."""

    part: output_format.StoredPart
    start: int
    end: int


@dataclass(frozen=True)
class _Content:
    """A frame's content and the requested range of it."""

    raw: bytes
    start: int
    end: int


_Wanted = tuple[output_format.FrameEntry, int, int]
"""A frame, and the requested range of it, in rows or in bytes."""


class OutputReader:
    """Reads one output; a slice reads only the frames that contain it. Raises `OutputError` (damaged)."""

    def __init__(
        self, objects: OutputObjects, manifest: output_format.OutputManifest, room: Room | None = None
    ) -> None:
        """Read into `room`, a few frames at a time; without it, whole parts, and the next one ahead. Raises
        `OutputDamaged` when the manifest contradicts itself.
        """
        if output_format.content_digest(manifest.parts) != manifest.digest:
            raise OutputDamaged("Its manifest contradicts itself.")
        self._objects = objects
        self._room = room
        self._indexes: LRUCache[str, output_format.PartIndex] = LRUCache(_CACHED_INDEXES)
        self.manifest = manifest

    async def rows(self, offset: int = 0, limit: int | None = None) -> AsyncGenerator[bytes]:
        """Rows as they were written, without their newlines, from row `offset`, `limit` at most."""
        async with aclosing(self.row_batches(offset, limit)) as batches:
            async for batch in batches:
                for row in batch:
                    yield row
                del batch

    async def row_batches(
        self, offset: int = 0, limit: int | None = None, *, copies: int = _COPIES_OF_ROWS
    ) -> AsyncGenerator[list[bytes]]:
        """The same rows, in lists of about a quarter of a megabyte: faster for many rows. With limited room, it has
        room for so many copies of each list until the next one is requested.
        """
        end = self.manifest.rows if limit is None else min(offset + limit, self.manifest.rows)
        async with aclosing(self._contents(offset, end, copies, counts_rows=True)) as contents:
            async for content in contents:
                yield content.raw.split(b"\n")[content.start : content.end]
                del content

    @asynccontextmanager
    async def whole(self, *, copies: int) -> AsyncGenerator[bytes]:
        """The whole content in one piece. With limited room, it has room for so many copies until the end of the block.
        Where that is more than all the room there is, it comes alone.
        """
        taken = nullcontext() if self._room is None else self._room.hold(copies * self.manifest.raw_size)
        async with taken:
            unlimited = OutputReader(self._objects, self.manifest)
            yield b"".join([piece async for piece in unlimited.bytes()])

    async def bytes(self, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes]:
        """Content bytes `start` to `end` (exclusive), in pieces of about a quarter of a megabyte."""
        end = self.manifest.raw_size if end is None else min(end, self.manifest.raw_size)
        async with aclosing(self._contents(start, end, 1, counts_rows=False)) as contents:
            async for content in contents:
                yield content.raw[content.start : content.end]
                del content

    async def _contents(self, start: int, end: int, copies: int, *, counts_rows: bool) -> AsyncGenerator[_Content]:
        """Yield the requested frames, with the range of each."""
        spans = _spans(self.manifest.parts, start, end, counts_rows=counts_rows)
        whole = self._room is None
        contents = self._whole_parts(spans, counts_rows) if whole else self._few(spans, copies, counts_rows)
        async with aclosing(contents):
            async for content in contents:
                yield content
                del content  # with limited room, nothing holds what was sent while the next one waits for room

    async def _few(self, spans: Sequence[_Span], copies: int, counts_rows: bool) -> AsyncGenerator[_Content]:
        """Yield a few frames at a time: more than one only where that takes no room from other readers."""
        assert self._room is not None
        ahead = output_format.FRAME_BYTES
        for span in spans:
            index = await self._read_index(span.part)
            wanted = _frames_in(index.frames, span, counts_rows=counts_rows)
            while wanted:
                ahead = output_format.FRAME_BYTES if self._room.is_scarce else ahead
                few, wanted = _first(wanted, ahead)
                async with self._room.hold(copies * sum(frame.raw_size for frame, _, _ in few)):
                    contents = await self._read(span.part, few)
                    contents.reverse()
                    while contents:
                        yield contents.pop()
                ahead = min(2 * ahead, _MOST_AHEAD_BYTES)

    async def _whole_parts(self, spans: Sequence[_Span], counts_rows: bool) -> AsyncGenerator[_Content]:
        """Yield one part at a time; the next part is read and decompressed in the background."""
        upcoming = asyncio.create_task(self._unpack(spans[0], counts_rows)) if spans else None
        try:
            for number in range(len(spans)):
                assert upcoming is not None
                contents = await upcoming
                following = spans[number + 1 : number + 2]
                upcoming = asyncio.create_task(self._unpack(following[0], counts_rows)) if following else None
                contents.reverse()
                while contents:
                    yield contents.pop()
        finally:
            if upcoming is not None and not upcoming.done():
                upcoming.cancel()
                await asyncio.gather(upcoming, return_exceptions=True)

    async def _unpack(self, span: _Span, counts_rows: bool) -> list[_Content]:
        """Return the requested frames of a part."""
        index = await self._read_index(span.part)
        return await self._read(span.part, _frames_in(index.frames, span, counts_rows=counts_rows))

    async def _read(self, part: output_format.StoredPart, wanted: Sequence[_Wanted]) -> list[_Content]:
        """Frames that follow each other: read with one request, decompressed in a thread."""
        first, last = wanted[0][0], wanted[-1][0]
        data = await self._objects.get_range(part.key, first.offset, last.offset + last.size)
        return await asyncio.to_thread(_contents_of, data, wanted, has_rows=self.manifest.kind == "rows")

    async def _read_index(self, part: output_format.StoredPart) -> output_format.PartIndex:
        known = self._indexes.get(part.key)
        if known is not None:
            return known
        tail = await self._objects.get_range(part.key, max(0, part.size - _TAIL_BYTES), part.size)
        length = output_format.index_length(tail[-output_format.FOOTER_BYTES :])
        begin = part.size - output_format.FOOTER_BYTES - length
        if begin < 0:
            raise OutputDamaged("An index is longer than its part.")
        if length + output_format.FOOTER_BYTES > len(tail):
            tail = await self._objects.get_range(part.key, begin, part.size)
        index = output_format.parse_index(tail[-output_format.FOOTER_BYTES - length : -output_format.FOOTER_BYTES])
        if index.digest != part.digest or index.rows != part.rows or index.raw_size != part.raw_size:
            raise OutputDamaged("A part was changed.")
        self._indexes[part.key] = index
        return index


def _spans(parts: Sequence[output_format.StoredPart], start: int, end: int, *, counts_rows: bool) -> list[_Span]:
    spans: list[_Span] = []
    position = 0
    for part in parts:
        size = part.rows if counts_rows else part.raw_size
        first, last = max(start, position), min(end, position + size)
        if first < last:
            spans.append(_Span(part, first - position, last - position))
        position += size
    return spans


def _frames_in(frames: Sequence[output_format.FrameEntry], span: _Span, *, counts_rows: bool) -> list[_Wanted]:
    """The frames that the span overlaps, each with the range of it. Raises `OutputDamaged` when there are none."""
    wanted: list[_Wanted] = []
    position = 0
    for frame in frames:
        size = frame.rows if counts_rows else frame.raw_size
        first, last = max(span.start, position), min(span.end, position + size)
        if first < last:
            wanted.append((frame, first - position, last - position))
        position += size
    if not wanted:
        raise OutputDamaged("A part's index does not lead to its content.")
    return wanted


def _first(wanted: list[_Wanted], size: int) -> tuple[list[_Wanted], list[_Wanted]]:
    """Return the first of the frames, up to the one with which they have `size` bytes, and the rest."""
    total = 0
    for count, (frame, _, _) in enumerate(wanted, start=1):
        total += frame.raw_size
        if total >= size:
            return wanted[:count], wanted[count:]
    return wanted, []


def _contents_of(data: bytes, wanted: Sequence[_Wanted], *, has_rows: bool) -> list[_Content]:
    base = wanted[0][0].offset
    contents: list[_Content] = []
    for frame, start, end in wanted:
        compressed = data[frame.offset - base : frame.offset - base + frame.size]
        raw = output_format.decompress(compressed, raw_size=frame.raw_size, digest=bytes.fromhex(frame.digest))
        if has_rows and raw.count(b"\n") != frame.rows:
            raise OutputDamaged("The rows of a frame differ from its index entry.")
        contents.append(_Content(raw, start, end))
    return contents


class Tombstone(Contract):
    """The tombstone of a removed output."""

    reason: Literal["expired", "deleted"]
    at: datetime


def manifest_key(locator: output_format.Locator) -> str:
    """Return the key of an output's manifest."""
    return f"manifests/{locator.scope}/{locator.name}.json"


def tombstone_key(locator: output_format.Locator) -> str:
    """Return the key of a removed output's tombstone."""
    return f"tombstones/{locator.scope}/{locator.name}.json"


async def open_output(
    objects: OutputObjects, locator: str, caller_id: str, now: datetime | None = None, room: Room | None = None
) -> OutputReader:
    """Return a reader of the output with this locator, for its owner; with `room`, for one who may be slow. Raises
    `OutputError`: malformed, foreign, unknown, expired, deleted or damaged. The reader raises it too when stored bytes
    were changed.
    """
    found = output_format.parse_locator(locator, caller_id=caller_id)
    manifest = await load_manifest(objects, found)
    if manifest is None:
        raise await _explain_missing_output(objects, found)
    if manifest.expires_at <= (now or datetime.now(UTC)):
        raise _removed("expired", manifest.expires_at)
    return OutputReader(objects, manifest, room)


async def load_manifest(objects: OutputObjects, locator: output_format.Locator) -> output_format.OutputManifest | None:
    """Return the manifest of a locator, expired or not; None when there is none. Raises `OutputDamaged`."""
    text = await objects.get(manifest_key(locator))
    if text is None:
        return None
    manifest = output_format.parse_manifest(text)
    if manifest.locator != str(locator):
        raise OutputDamaged("Its manifest belongs to another output.")
    return manifest


async def _explain_missing_output(objects: OutputObjects, locator: output_format.Locator) -> OutputError:
    text = await objects.get(tombstone_key(locator))
    if text is None:
        return OutputError("unknown", "There is no such output.")
    try:
        tombstone = Tombstone.model_validate_json(text)
    except ValidationError:
        return OutputDamaged("It was removed, and its tombstone cannot be read.")
    return _removed(tombstone.reason, tombstone.at)


def _removed(reason: Literal["expired", "deleted"], at: datetime) -> OutputError:
    what = "has expired" if reason == "expired" else "was deleted"
    return OutputError(reason, f"This output {what} on {at.astimezone(UTC):%Y-%m-%d at %H:%M} UTC.")


async def remove_output(
    objects: OutputObjects,
    manifest: output_format.OutputManifest,
    *,
    reason: Literal["expired", "deleted"],
    at: datetime,
) -> int:
    """Remove an output and leave its tombstone. Returns the number of bytes freed. The tombstone is written first and
    the parts are deleted last: a reader in between, or after a crash in between, gets the reason. The sweep deletes
    parts that no manifest names.
    """
    locator = output_format.parse_locator(manifest.locator, caller_id=manifest.caller_id)
    tombstone = Tombstone(reason=reason, at=at)
    await objects.put(tombstone_key(locator), tombstone.model_dump_json().encode())
    await objects.delete([manifest_key(locator)])
    await objects.delete([part.key for part in manifest.parts])
    return manifest.stored_size


async def delete_output(objects: OutputObjects, locator: str, caller_id: str) -> None:
    """Delete an output for its owner, also a damaged one. Raises `OutputError` as `open_output` does. It cannot be read
    The next sweep deletes its parts, unless another output (of a repeated attempt) shares them.
    """
    found = output_format.parse_locator(locator, caller_id=caller_id)
    with suppress(OutputDamaged):
        await open_output(objects, locator, caller_id)
    tombstone = Tombstone(reason="deleted", at=datetime.now(UTC))
    await objects.put(tombstone_key(found), tombstone.model_dump_json().encode())
    await objects.delete([manifest_key(found)])


@dataclass(frozen=True)
class PartReport:
    """The result of verifying a part: sentences about what is wrong (none for an intact part) and how much was read."""

    findings: tuple[str, ...]
    frames: int = 0
    rows: int = 0
    raw_bytes: int = 0


async def verify_output(
    source: OutputObjects | Path | str, manifest: output_format.OutputManifest | str
) -> tuple[str, ...]:
    """Read a whole output; returns what is wrong with it, nothing when it is intact. `source` is the store, its folder
    or its URL; `manifest` is the output's manifest or its key.
    """
    objects = source if isinstance(source, OutputObjects) else OutputObjects.open(str(source))
    if isinstance(manifest, str):
        text = await objects.get(manifest)
        if text is None:
            return (f"There is no manifest {manifest}.",)
        try:
            manifest = output_format.parse_manifest(text)
        except OutputDamaged as damage:
            return (damage.problem,)
    findings: list[str] = []
    for part in manifest.parts:
        findings += [f"{part.key}: {finding}" for finding in await _part_findings(objects, part)]
    return tuple(findings)


def verify_part_file(file: Path) -> PartReport:
    """Verify a part in a file: footer, index, frames, digests. Raises `OSError`."""
    return verify_part(file.read_bytes())


def verify_part(data: bytes) -> PartReport:
    """Verify a part."""
    try:
        index, text = _read_index(data)
    except OutputDamaged as damage:
        return PartReport((damage.problem,))
    findings: list[str] = []
    end = index.frames[-1].offset + index.frames[-1].size
    if data[end:] != output_format.index_frame(text):
        findings.append("The bytes after the last frame are not exactly the index.")
    has_rows = index.rows > 0
    rows = raw_bytes = 0
    for number, frame in enumerate(index.frames):
        compressed = data[frame.offset : frame.offset + frame.size]
        try:
            raw = output_format.decompress(compressed, raw_size=frame.raw_size, digest=bytes.fromhex(frame.digest))
        except OutputDamaged as damage:
            findings.append(f"Frame {number}: {damage.problem}")
            continue
        if has_rows and (raw.count(b"\n") != frame.rows or not raw.endswith(b"\n")):
            findings.append(f"Frame {number}: The number of rows differs from the index.")
        rows, raw_bytes = rows + frame.rows, raw_bytes + len(raw)
    return PartReport(tuple(findings), len(index.frames), rows, raw_bytes)


async def _part_findings(objects: OutputObjects, part: output_format.StoredPart) -> tuple[str, ...]:
    data = await objects.get(part.key)
    if data is None:
        return ("The part is missing.",)
    if len(data) != part.size:
        return (f"The part has {len(data)} bytes, not {part.size}.",)
    named = part.key.rpartition("/")[2].split(".")[1]
    if not hashlib.sha256(data).hexdigest().startswith(named):
        return ("The digest of the part differs from its name.", *verify_part(data).findings)
    found = verify_part(data)
    if found.findings:
        return found.findings
    index, _ = _read_index(data)
    matches = (index.digest, index.rows, index.raw_size) == (part.digest, part.rows, part.raw_size)
    return () if matches else ("The part is not the one that the manifest describes.",)


def _read_index(data: bytes) -> tuple[output_format.PartIndex, bytes]:
    length = output_format.index_length(data[-output_format.FOOTER_BYTES :])
    begin = len(data) - output_format.FOOTER_BYTES - length
    if begin < output_format.FRAME_HEADER_BYTES:
        raise OutputDamaged("The index is longer than its part.")
    text = data[begin : len(data) - output_format.FOOTER_BYTES]
    index = output_format.parse_index(text)
    last = index.frames[-1]
    if last.offset + last.size != begin - output_format.FRAME_HEADER_BYTES:
        raise OutputDamaged("The frames do not end where the index begins.")
    return index, text
