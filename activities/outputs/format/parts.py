"""A part: frames, followed by an index that locates a row without reading the other frames.

    frame | frame | … | skippable frame ( index as JSON | length of the JSON, 8 bytes | b"OUTLAST" 0x01 )

All numbers are little-endian. The index is in a skippable frame (RFC 8878, 3.1.2), so that a part is a plain zstd file:
`zstd -dc part` prints the content. See docs/output-format.md.
"""

import hashlib
import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from outlast.activities.outputs.format.errors import OutputDamaged
from outlast.activities.outputs.format.frames import MAX_FRAME_BYTES, MAX_PART_BYTES, Frame

MAGIC = b"OUTLAST\x01"
FOOTER_BYTES = 16
FRAME_HEADER_BYTES = 8
"""Of a skippable frame: its magic number and its size."""
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
    return Part(b"".join([*(frame.compressed for frame in frames), index_frame(_index_json(index))]), index)


def index_length(footer: bytes) -> int:
    """Bytes of the index's JSON, from a part's last `FOOTER_BYTES`. Raises `OutputDamaged`."""
    if len(footer) != FOOTER_BYTES or footer[8:] != MAGIC:
        raise OutputDamaged("This is not an output, or its end is missing.")
    (length,) = struct.unpack("<Q", footer[:8])
    if not 0 < length <= _MAX_INDEX_BYTES:
        raise OutputDamaged("The index has an impossible length.")
    return length


def parse_index(text: bytes) -> PartIndex:
    """The index from its JSON. Raises `OutputDamaged`."""
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
    """The skippable frame that holds the index's JSON."""
    payload = text + struct.pack("<Q", len(text)) + MAGIC
    return struct.pack("<II", SKIPPABLE_MAGIC, len(payload)) + payload


def _index_json(index: PartIndex) -> bytes:
    return json.dumps(index.model_dump(), separators=(",", ":")).encode()
