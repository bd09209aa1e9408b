"""Reading an output, whole or in part. Every byte given back was held against the digest in the manifest."""

import asyncio
from collections.abc import AsyncIterator

from activities.output_store.frames import OutputDamaged, decompress
from activities.output_store.manifest import OutputManifest, StoredPart, content_digest
from activities.output_store.parts import FOOTER_BYTES, FrameEntry, PartIndex, index_length, parse_index
from activities.output_store.store import OutputObjects


class OutputReader:
    """Reads one output; a slice costs only the frames that it touches."""

    def __init__(self, objects: OutputObjects, manifest: OutputManifest) -> None:
        """Raises `OutputDamaged` when the manifest contradicts itself."""
        if content_digest(manifest.parts) != manifest.digest:
            raise OutputDamaged("The output's own index contradicts itself.")
        self._objects = objects
        self.manifest = manifest

    async def rows(self, offset: int = 0, limit: int | None = None) -> AsyncIterator[bytes]:
        """Rows without their newlines, from row `offset`, `limit` at most."""
        end = self.manifest.rows if limit is None else min(offset + limit, self.manifest.rows)
        row = 0
        for part in self.manifest.parts:
            if row < end and row + part.rows > offset:
                async for found in self._rows_of(part, offset - row, end - row):
                    yield found
            row += part.rows

    async def bytes(self, start: int = 0, end: int | None = None) -> AsyncIterator[bytes]:
        """Content bytes `start` to `end` (exclusive), in pieces."""
        end = self.manifest.raw_size if end is None else min(end, self.manifest.raw_size)
        position = 0
        for part in self.manifest.parts:
            if position < end and position + part.raw_size > start:
                async for piece in self._bytes_of(part, start - position, end - position):
                    yield piece
            position += part.raw_size

    async def _rows_of(self, part: StoredPart, start: int, end: int) -> AsyncIterator[bytes]:
        row = 0
        for frame in (await self._index(part)).frames:
            if row < end and row + frame.rows > start:
                lines = (await self._frame(part, frame)).split(b"\n")[:-1]
                for line in lines[max(0, start - row) : end - row]:
                    yield line
            row += frame.rows

    async def _bytes_of(self, part: StoredPart, start: int, end: int) -> AsyncIterator[bytes]:
        position = 0
        for frame in (await self._index(part)).frames:
            if position < end and position + frame.raw_size > start:
                raw = await self._frame(part, frame)
                yield raw[max(0, start - position) : end - position]
            position += frame.raw_size

    async def _index(self, part: StoredPart) -> PartIndex:
        footer = await self._objects.get_range(part.key, part.size - FOOTER_BYTES, part.size)
        length = index_length(footer)
        begin = part.size - FOOTER_BYTES - length
        if begin < 0:
            raise OutputDamaged("The index is longer than its part.")
        index = parse_index(await self._objects.get_range(part.key, begin, begin + length))
        if index.digest != part.digest or index.rows != part.rows or index.raw_size != part.raw_size:
            raise OutputDamaged("A part is not the one that was written.")
        return index

    async def _frame(self, part: StoredPart, frame: FrameEntry) -> bytes:
        compressed = await self._objects.get_range(part.key, frame.offset, frame.offset + frame.size)
        return await asyncio.to_thread(
            decompress, compressed, raw_size=frame.raw_size, digest=bytes.fromhex(frame.digest)
        )
