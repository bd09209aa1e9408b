"""Frames and parts of stored content: independent zstd frames that end at the end of a row, with an index per part. The
end of a frame depends on the content alone: the same content gives the same frames and the same digest, whatever the
page sizes and however often the writing was interrupted.
"""

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import zstandard
from pydantic import BaseModel, ConfigDict, ValidationError

from outlast.activities.failures.output_errors import OutputDamaged

FRAME_BYTES = 256 * 1024
"""The row that brings a frame to this size (uncompressed) is its last."""
PART_BYTES = 8 * 1024 * 1024
"""The frame that brings a part to this size is its last. An interrupted write repeats at most this much."""
MAX_ROW_BYTES = 64 * 1024 * 1024
MAX_FRAME_BYTES = FRAME_BYTES + MAX_ROW_BYTES + 1
MAX_PART_BYTES = PART_BYTES + MAX_FRAME_BYTES
ZSTD_LEVEL = 3


@dataclass(frozen=True)
class Sizes:
    """Sizes of closed frames and parts, in bytes of content. Digests depend on them: do not change the defaults."""

    frame: int = FRAME_BYTES
    part: int = PART_BYTES


@dataclass(frozen=True)
class Frame:
    """One zstd frame (RFC 8878) of whole rows, with the digest of its content."""

    compressed: bytes
    raw_size: int
    rows: int
    digest: bytes


DEFAULT_SIZES = Sizes()


class Cutter:
    """Splits content into frames and parts. Does not compress."""

    def __init__(self, *, aligned: bool, sizes: Sizes = DEFAULT_SIZES) -> None:
        """`aligned` content consists of rows, and frames end with a row; other content is split at the frame size."""
        self._aligned = aligned
        self._sizes = sizes
        self._pieces: list[memoryview] = []
        self._frame_size = 0
        self._frames: list[bytes] = []
        self._part_size = 0

    def add(self, content: bytes) -> Iterator[list[bytes]]:
        """Add the next bytes, split anywhere. Yields the parts that are complete, each as its frames' content."""
        start, view = 0, memoryview(content)  # Content is copied once, when its frame is complete.
        while start < len(content):
            end, is_full = self._frame_end(content, start)
            self._pieces.append(view[start:end])
            self._frame_size += end - start
            start = end
            if is_full:
                self._close_frame()
            if self._part_size >= self._sizes.part:
                yield self._close_part()

    def finish(self) -> Iterator[list[bytes]]:
        """Yield the last part, if there is content left."""
        if self._frame_size:
            self._close_frame()
        if self._frames:
            yield self._close_part()

    def _frame_end(self, content: bytes, start: int) -> tuple[int, bool]:
        """Return the end in `content` of the current frame's bytes, and whether the frame ends there."""
        wanted = self._sizes.frame - self._frame_size
        if len(content) - start < wanted:
            return len(content), False
        if not self._aligned:
            return start + wanted, True
        newline = content.find(b"\n", start + max(wanted, 1) - 1)
        return (len(content), False) if newline < 0 else (newline + 1, True)

    def _close_frame(self) -> None:
        self._frames.append(b"".join(self._pieces))
        self._part_size += self._frame_size
        self._pieces, self._frame_size = [], 0

    def _close_part(self) -> list[bytes]:
        frames, self._frames, self._part_size = self._frames, [], 0
        return frames


def compress(contents: list[bytes], *, aligned: bool, level: int = ZSTD_LEVEL) -> list[Frame]:
    """Compress the contents into frames, and empty the list: compressed content needs no memory. Run it in a
    thread: most of it runs without the interpreter's lock.
    """
    compressor = zstandard.ZstdCompressor(level=level, write_checksum=False, write_content_size=True)
    frames: list[Frame] = []
    contents.reverse()
    while contents:
        raw = contents.pop()
        rows = raw.count(b"\n") if aligned else 0
        frames.append(Frame(compressor.compress(raw), len(raw), rows, hashlib.sha256(raw).digest()))
    return frames


def decompress(compressed: bytes, *, raw_size: int, digest: bytes) -> bytes:
    """The content of a frame. Raises `OutputDamaged` for another size or digest; allocates at most `raw_size`."""
    try:
        # zstd allocates the size that the frame declares, and fails when the frame holds more.
        if zstandard.frame_content_size(compressed) != raw_size:
            raise OutputDamaged("The size of a frame differs from its index entry.")
        raw = zstandard.ZstdDecompressor().decompress(compressed, max_output_size=raw_size, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise OutputDamaged("A frame cannot be decompressed.") from error
    if len(raw) != raw_size or hashlib.sha256(raw).digest() != digest:
        raise OutputDamaged("The content of a frame was changed.")
    return raw


MAGIC = b"OUTLAST\x01"
FOOTER_BYTES = 16
FRAME_HEADER_BYTES = 8
"""Size of the header of a skippable frame: its magic number and its size."""
SKIPPABLE_MAGIC = 0x184D2A5E
_MAX_INDEX_BYTES = 4 * 1024 * 1024


class FrameEntry(BaseModel):
    """Position and content of a frame. Sizes in bytes; `digest` is the SHA-256 of the content, in hex."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    offset: int
    size: int
    raw_size: int
    rows: int
    digest: str


class PartIndex(BaseModel):
    """The frames of a part, in order."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    version: Literal[1]
    frames: tuple[FrameEntry, ...]

    @property
    def rows(self) -> int:
        """Rows in the part."""
        return sum(frame.rows for frame in self.frames)

    @property
    def raw_size(self) -> int:
        """Bytes of content in the part."""
        return sum(frame.raw_size for frame in self.frames)

    @property
    def digest(self) -> str:
        """SHA-256 over the digests of the frames."""
        return hashlib.sha256(b"".join(bytes.fromhex(frame.digest) for frame in self.frames)).hexdigest()


@dataclass(frozen=True)
class Part:
    """A part as it is stored."""

    data: bytes
    index: PartIndex


def build_part(frames: Sequence[Frame]) -> Part:
    """Join frames and their index."""
    entries: list[FrameEntry] = []
    offset = 0
    for frame in frames:
        entries.append(
            FrameEntry(
                offset=offset,
                size=len(frame.compressed),
                raw_size=frame.raw_size,
                rows=frame.rows,
                digest=frame.digest.hex(),
            )
        )
        offset += len(frame.compressed)
    index = PartIndex(version=1, frames=tuple(entries))
    index_json = json.dumps(index.model_dump(), separators=(",", ":")).encode()
    return Part(b"".join([*(frame.compressed for frame in frames), index_frame(index_json)]), index)


def index_length(footer: bytes) -> int:
    """Bytes of the index's JSON, from a part's last `FOOTER_BYTES`. Raises `OutputDamaged`."""
    if len(footer) != FOOTER_BYTES or footer[8:] != MAGIC:
        raise OutputDamaged("This is not an output, or its end is missing.")
    (length,) = struct.unpack("<Q", footer[:8])
    if not 0 < length <= _MAX_INDEX_BYTES:
        raise OutputDamaged("The index has an impossible length.")
    return length


def parse_index(text: bytes) -> PartIndex:
    """Return the index from its JSON. Raises `OutputDamaged`."""
    try:
        index = PartIndex.model_validate_json(text)
        _ = index.digest
    except (ValidationError, ValueError) as error:
        raise OutputDamaged("The index cannot be read.") from error
    end = 0
    for frame in index.frames:
        if frame.offset != end or frame.size <= 0 or not 0 < frame.raw_size <= MAX_FRAME_BYTES or frame.rows < 0:
            raise OutputDamaged("The index contradicts itself.")
        end += frame.size
    if not index.frames or index.raw_size > MAX_PART_BYTES:
        raise OutputDamaged("The index is empty, or describes more than a part can hold.")
    return index


def index_frame(text: bytes) -> bytes:
    """Return the skippable frame that holds the index's JSON."""
    payload = text + struct.pack("<Q", len(text)) + MAGIC
    return struct.pack("<II", SKIPPABLE_MAGIC, len(payload)) + payload
