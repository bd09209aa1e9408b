"""Content as independent zstd frames, aligned to rows.

Where a frame ends depends on the content alone, never on how it arrived: the same content gives the same frames, and
so the same digest, whatever the page sizes and however often the writing was interrupted.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

import zstandard

FRAME_BYTES = 256 * 1024
"""A frame is closed by the row that brings it to this size (uncompressed)."""
MAX_ROW_BYTES = 64 * 1024 * 1024
ZSTD_LEVEL = 3


class OutputDamaged(Exception):
    """Stored bytes are not what was written: truncated, changed, or no output at all."""


@dataclass(frozen=True)
class Frame:
    """One zstd frame (RFC 8878) of whole rows, with the digest of what is in it."""

    compressed: bytes
    raw_size: int
    rows: int
    digest: bytes


class FrameBuilder:
    """Collects content and closes frames."""

    def __init__(self, *, aligned: bool, level: int = ZSTD_LEVEL) -> None:
        """`aligned` content consists of rows, and frames end with one; other content is cut at `FRAME_BYTES`."""
        self._aligned = aligned
        self._compressor = zstandard.ZstdCompressor(level=level, write_checksum=True, write_content_size=True)
        self._rows: list[bytes] = []
        self._size = 0

    def add(self, rows: bytes) -> Iterator[Frame]:
        """Take content (whole rows, each ended by a newline, when aligned); gives the frames that are complete."""
        start = 0
        while start < len(rows):
            end = self._frame_end(rows, start)
            self._rows.append(rows[start:end])
            self._size += end - start
            start = end
            if self._size >= FRAME_BYTES:
                yield self._close()

    def finish(self) -> Iterator[Frame]:
        """The last frame, when anything is left."""
        if self._size:
            yield self._close()

    def _frame_end(self, rows: bytes, start: int) -> int:
        """Up to where `rows` belongs to the current frame: behind the row that fills it."""
        wanted = FRAME_BYTES - self._size
        if len(rows) - start < wanted:
            return len(rows)
        if not self._aligned:
            return start + wanted
        newline = rows.find(b"\n", start + wanted - 1)
        return len(rows) if newline < 0 else newline + 1

    def _close(self) -> Frame:
        raw = b"".join(self._rows)
        self._rows, self._size = [], 0
        rows = raw.count(b"\n") if self._aligned else 0
        return Frame(self._compressor.compress(raw), len(raw), rows, hashlib.sha256(raw).digest())


def decompress(compressed: bytes, *, raw_size: int, digest: bytes) -> bytes:
    """What is in a frame. Raises `OutputDamaged` when it is not what the index promises; never makes more of it."""
    try:
        if zstandard.frame_content_size(compressed) != raw_size:
            raise OutputDamaged("A frame declares another size than the index.")
        raw = zstandard.ZstdDecompressor().decompress(compressed, max_output_size=raw_size)
    except zstandard.ZstdError as error:
        raise OutputDamaged(f"A frame cannot be decompressed: {error}.") from error
    if len(raw) != raw_size or hashlib.sha256(raw).digest() != digest:
        raise OutputDamaged("A frame's content is not what was written.")
    return raw
