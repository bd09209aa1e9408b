"""Reads an output, whole or in part. Every byte is verified against the digest in the manifest first."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass

from cachetools import LRUCache

from outlast.activities.outputs.format.errors import OutputDamaged
from outlast.activities.outputs.format.frames import decompress
from outlast.activities.outputs.format.manifest import OutputManifest, StoredPart, content_digest
from outlast.activities.outputs.format.parts import FOOTER_BYTES, FrameEntry, PartIndex, index_length, parse_index
from outlast.activities.outputs.store.object_store import OutputObjects

_TAIL_BYTES = 8 * 1024
"""Enough for most indexes, so that reading one takes a single request."""
_CACHED_INDEXES = 512


@dataclass(frozen=True)
class _Span:
    """The requested range of a part, in rows or in bytes, relative to the part."""

    part: StoredPart
    start: int
    end: int


@dataclass(frozen=True)
class _Content:
    """A frame's content and the requested range of it."""

    raw: bytes
    start: int
    end: int


class OutputReader:
    """Reads one output; a slice reads only the frames that contain it. Raises `OutputError` (damaged)."""

    def __init__(self, objects: OutputObjects, manifest: OutputManifest) -> None:
        """Raises `OutputDamaged` when the manifest contradicts itself."""
        if content_digest(manifest.parts) != manifest.digest:
            raise OutputDamaged("Its manifest contradicts itself.")
        self._objects = objects
        self._indexes: LRUCache[str, PartIndex] = LRUCache(_CACHED_INDEXES)
        self.manifest = manifest

    async def rows(self, offset: int = 0, limit: int | None = None) -> AsyncGenerator[bytes]:
        """Rows as they were written, without their newlines, from row `offset`, `limit` at most."""
        async for batch in self.row_batches(offset, limit):
            for row in batch:
                yield row

    async def row_batches(self, offset: int = 0, limit: int | None = None) -> AsyncGenerator[list[bytes]]:
        """The same rows, in lists of about a quarter of a megabyte: faster for many rows."""
        end = self.manifest.rows if limit is None else min(offset + limit, self.manifest.rows)
        async for content in self._contents(offset, end, counts_rows=True):
            yield content.raw.split(b"\n")[content.start : content.end]

    async def bytes(self, start: int = 0, end: int | None = None) -> AsyncGenerator[bytes]:
        """Content bytes `start` to `end` (exclusive), in pieces of about a quarter of a megabyte."""
        end = self.manifest.raw_size if end is None else min(end, self.manifest.raw_size)
        async for content in self._contents(start, end, counts_rows=False):
            yield content.raw[content.start : content.end]

    async def _contents(self, start: int, end: int, *, counts_rows: bool) -> AsyncGenerator[_Content]:
        """The frames, one part at a time; the next part is read and decompressed in the background."""
        spans = _spans(self.manifest.parts, start, end, counts_rows=counts_rows)
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
        """The requested frames of a part: read with one request, decompressed in a thread."""
        index = await self._read_index(span.part)
        wanted = _frames_in(index.frames, span, counts_rows=counts_rows)
        first, last = wanted[0][0], wanted[-1][0]
        data = await self._objects.get_range(span.part.key, first.offset, last.offset + last.size)
        return await asyncio.to_thread(_contents_of, data, wanted, has_rows=self.manifest.kind == "rows")

    async def _read_index(self, part: StoredPart) -> PartIndex:
        known = self._indexes.get(part.key)
        if known is not None:
            return known
        tail = await self._objects.get_range(part.key, max(0, part.size - _TAIL_BYTES), part.size)
        length = index_length(tail[-FOOTER_BYTES:])
        begin = part.size - FOOTER_BYTES - length
        if begin < 0:
            raise OutputDamaged("An index is longer than its part.")
        if length + FOOTER_BYTES > len(tail):
            tail = await self._objects.get_range(part.key, begin, part.size)
        index = parse_index(tail[-FOOTER_BYTES - length : -FOOTER_BYTES])
        if index.digest != part.digest or index.rows != part.rows or index.raw_size != part.raw_size:
            raise OutputDamaged("A part was changed.")
        self._indexes[part.key] = index
        return index


def _spans(parts: Sequence[StoredPart], start: int, end: int, *, counts_rows: bool) -> list[_Span]:
    spans: list[_Span] = []
    position = 0
    for part in parts:
        size = part.rows if counts_rows else part.raw_size
        first, last = max(start, position), min(end, position + size)
        if first < last:
            spans.append(_Span(part, first - position, last - position))
        position += size
    return spans


def _frames_in(frames: Sequence[FrameEntry], span: _Span, *, counts_rows: bool) -> list[tuple[FrameEntry, int, int]]:
    """The frames that the span overlaps, each with the range of it. Raises `OutputDamaged` when there are none."""
    wanted: list[tuple[FrameEntry, int, int]] = []
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


def _contents_of(data: bytes, wanted: Sequence[tuple[FrameEntry, int, int]], *, has_rows: bool) -> list[_Content]:
    base = wanted[0][0].offset
    contents: list[_Content] = []
    for frame, start, end in wanted:
        compressed = data[frame.offset - base : frame.offset - base + frame.size]
        raw = decompress(compressed, raw_size=frame.raw_size, digest=bytes.fromhex(frame.digest))
        if has_rows and raw.count(b"\n") != frame.rows:
            raise OutputDamaged("The rows of a frame differ from its index entry.")
        contents.append(_Content(raw, start, end))
    return contents
