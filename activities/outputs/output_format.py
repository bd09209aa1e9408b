"""The format of stored outputs (docs/output-format.md): locators, manifests, and parts with their frames.

Locators and manifests of outputs. The manifest is written last, so an output with a manifest is complete.

Frames and parts of stored content: independent zstd frames that end at the end of a row, with an index per part. The
end of a frame depends on the content alone: the same content gives the same frames and the same digest, whatever the
page sizes and however often the writing was interrupted.
"""

import base64
import hashlib
import json
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import zstandard
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from outlast.activities.bounds import MAX_LOCATOR_CHARS
from outlast.activities.contracts import Contract
from outlast.activities.failures.exceptions import OutputDamaged, OutputError
from outlast.activities.outputs.contracts import FieldSummary, OutputKind, OutputScope, StoredOutput

_FORM = re.compile(r"out_([a-z2-7]{13})_([a-z2-7]{32})_([a-z2-7]{6})")
_TASK_ID = re.compile(r"[A-Za-z0-9_-]{1,128}")


@dataclass(frozen=True)
class Locator:
    """The parts of a locator."""

    scope: str
    name: str

    def __str__(self) -> str:
        return f"out_{self.scope}_{self.name}_{_check(self.scope, self.name)}"


def scope_of(caller_id: str) -> str:
    """Return the part of a locator that identifies its owner: 13 characters."""
    return _digest("scope", caller_id)[:13]


def locator_for(scope: OutputScope, kind: OutputKind, digest: str) -> Locator:
    """Return the locator of an output, derived from its call, its kind and the digest of its content."""
    call = (scope.caller_id, scope.session_id, scope.message_id, scope.tool_call_id)
    name = _digest("name", *call, kind, digest)
    return Locator(scope_of(scope.caller_id), name[:32])


def upload_name(scope: OutputScope, what: str) -> str:
    """`<task id>.<16 hex>`: the same for every attempt to store `what` for this call, on any worker. A task id with
    characters that are not safe in a key is replaced by its digest.
    """
    is_safe = _TASK_ID.fullmatch(scope.task_id) is not None
    task = scope.task_id if is_safe else "task-" + _digest("task", scope.task_id)[:32]
    text = "\n".join([scope.session_id or "", scope.message_id or "", scope.tool_call_id, what])
    return f"{task}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"


def parse_locator(text: str, *, caller_id: str) -> Locator:
    """Parse a locator of the caller. Raises `OutputError`: malformed or foreign."""
    match = _FORM.fullmatch(text) if len(text) <= MAX_LOCATOR_CHARS else None
    if match is None or match[3] != _check(match[1], match[2]):
        raise OutputError("malformed", "This is not the locator of a stored output.")
    if match[1] != scope_of(caller_id):
        raise OutputError("foreign", "This output belongs to another caller.")
    return Locator(match[1], match[2])


def _check(scope: str, name: str) -> str:
    return _digest("check", scope, name)[:6]


def _digest(*parts: str | None) -> str:
    """SHA-256 over the parts in lower-case Base32. Each part's length is hashed too, so that no two lists collide."""
    encoded = b"".join(b"-" if part is None else b"%d:%s" % (len(part.encode()), part.encode()) for part in parts)
    return base64.b32encode(hashlib.sha256(encoded).digest()).decode().lower().rstrip("=")


REFERENCES_ATTRIBUTE = "OutlastLocators"
"""Search attribute of type KeywordList, set when a task starts."""

MAX_REFERENCES = 100
"""References beyond this number are not protected. Temporal allows 2 KB per search attribute: entries are short too."""

_LOCATOR = re.compile(r"out_[a-z2-7]{13}_([a-z2-7]{16})[a-z2-7]{16}_[a-z2-7]{6}")


def references_in(text: str) -> tuple[str, ...]:
    """Short names of the locators in a text, each once: the first 16 characters after the second underscore."""
    return tuple(dict.fromkeys(_LOCATOR.findall(text)))[:MAX_REFERENCES]


def locators_in(text: str) -> tuple[str, ...]:
    """Return the locators in a text, each once. Their check characters may be wrong, see `parse_locator`."""
    return tuple(dict.fromkeys(found[0] for found in _LOCATOR.finditer(text)))


def reference_to(locator: str) -> str:
    """Return the short name of one locator."""
    return locator.split("_")[2][:16]


DIGEST_PREFIX = "sha256:"
_SEAL = re.compile(rb'\{"checksum":"sha256:([0-9a-f]{64})",')


class StoredPart(Contract):
    """One part of an output: its object and its content. Sizes in bytes."""

    key: str
    size: int = Field(ge=0)
    raw_size: int = Field(ge=0)
    rows: int = Field(ge=0)
    digest: str = Field(description="SHA-256 over the digests of the frames, in hex.", pattern="^[0-9a-f]{64}$")


class OutputManifest(Contract):
    """An output: its kind, its owner, its call, its parts and its expiry."""

    version: Literal[1] = 1
    locator: str
    caller_id: str
    session_id: str | None = None
    message_id: str | None = None
    tool_call_id: str
    task_id: str = Field(description="The task that produced it and may still need it.")
    kind: OutputKind
    content_type: str
    digest: str = Field(description="SHA-256 over the digests of the parts: `sha256:` and hexadecimal.")
    raw_size: int
    stored_size: int
    rows: int = Field(description="Number of rows; 0 for other kinds.")
    count: int | None = Field(default=None, description="Number of rows, or of elements of a JSON list.")
    fields: tuple[FieldSummary, ...] = ()
    summary: str = ""
    parts: tuple[StoredPart, ...]
    series: str | None = Field(
        default=None,
        description="For a growing output: the value that its locator is derived from, instead of its digest.",
    )
    created_at: datetime
    expires_at: datetime

    @property
    def scope(self) -> OutputScope:
        """The owner and the call that produced it."""
        return OutputScope(
            caller_id=self.caller_id,
            session_id=self.session_id,
            message_id=self.message_id,
            tool_call_id=self.tool_call_id,
            task_id=self.task_id,
        )


def locator_of(manifest: OutputManifest) -> Locator:
    """Return the locator of an output: it follows from its call and its content, or from its series when it grows."""
    return locator_for(manifest.scope, manifest.kind, manifest.series or manifest.digest)


def content_digest(parts: tuple[StoredPart, ...]) -> str:
    """Return one digest over the digests of all parts, and through them of all frames."""
    found = hashlib.sha256(b"".join(bytes.fromhex(part.digest) for part in parts))
    return DIGEST_PREFIX + found.hexdigest()


def manifest_text(manifest: OutputManifest) -> bytes:
    """Return the manifest as it is stored: JSON whose first member is the checksum of the rest."""
    text = manifest.model_dump_json().encode()
    return b'{"checksum":"%s%s",%s' % (DIGEST_PREFIX.encode(), hashlib.sha256(text).hexdigest().encode(), text[1:])


def parse_manifest(text: bytes) -> OutputManifest:
    """Parse a stored manifest. Raises `OutputDamaged` when any byte was changed."""
    seal = _SEAL.match(text)
    if seal is None or hashlib.sha256(b"{" + text[seal.end() :]).hexdigest().encode() != seal[1]:
        raise OutputDamaged("Its manifest was changed.")
    try:
        manifest = OutputManifest.model_validate(json.loads(text))
    except (ValidationError, ValueError) as error:
        raise OutputDamaged("Its manifest cannot be read.") from error
    _check_consistency(manifest)
    return manifest


def _check_consistency(manifest: OutputManifest) -> None:
    """Raise `OutputDamaged` when digest, sizes or locator do not match the parts and the call."""
    is_consistent = (
        content_digest(manifest.parts) == manifest.digest
        and sum(part.raw_size for part in manifest.parts) == manifest.raw_size
        and sum(part.rows for part in manifest.parts) == manifest.rows
        and str(locator_of(manifest)) == manifest.locator
    )
    if not is_consistent:
        raise OutputDamaged("Its manifest contradicts itself.")


def stored_output(manifest: OutputManifest) -> StoredOutput:
    """Return the description of the output that answers contain instead of its content."""
    return StoredOutput(
        locator=manifest.locator,
        kind=manifest.kind,
        content_type=manifest.content_type,
        size_bytes=manifest.raw_size,
        stored_bytes=manifest.stored_size,
        count=manifest.count,
        digest=manifest.digest,
        created_at=manifest.created_at,
        expires_at=manifest.expires_at,
        fields=manifest.fields,
        summary=manifest.summary,
    )


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
