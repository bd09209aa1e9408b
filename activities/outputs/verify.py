"""Verifies stored outputs against docs/output-format.md: every byte of a part, and the values of the manifest."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from outlast.activities.failures.output_errors import OutputDamaged
from outlast.activities.object_store.objects import OutputObjects
from outlast.activities.outputs.frames import (
    FOOTER_BYTES,
    FRAME_HEADER_BYTES,
    PartIndex,
    decompress,
    index_frame,
    index_length,
    parse_index,
)
from outlast.activities.outputs.manifest import OutputManifest, StoredPart, parse_manifest


@dataclass(frozen=True)
class PartReport:
    """The result of verifying a part: sentences about what is wrong (none for an intact part) and how much was read."""

    findings: tuple[str, ...]
    frames: int = 0
    rows: int = 0
    raw_bytes: int = 0


async def verify_output(source: OutputObjects | Path | str, manifest: OutputManifest | str) -> tuple[str, ...]:
    """Read a whole output; returns what is wrong with it, nothing when it is intact. `source` is the store, its folder
    or its URL; `manifest` is the output's manifest or its key.
    """
    objects = source if isinstance(source, OutputObjects) else OutputObjects.open(str(source))
    if isinstance(manifest, str):
        text = await objects.get(manifest)
        if text is None:
            return (f"There is no manifest {manifest}.",)
        try:
            manifest = parse_manifest(text)
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
    if data[end:] != index_frame(text):
        findings.append("The bytes after the last frame are not exactly the index.")
    has_rows = index.rows > 0
    rows = raw_bytes = 0
    for number, frame in enumerate(index.frames):
        compressed = data[frame.offset : frame.offset + frame.size]
        try:
            raw = decompress(compressed, raw_size=frame.raw_size, digest=bytes.fromhex(frame.digest))
        except OutputDamaged as damage:
            findings.append(f"Frame {number}: {damage.problem}")
            continue
        if has_rows and (raw.count(b"\n") != frame.rows or not raw.endswith(b"\n")):
            findings.append(f"Frame {number}: The number of rows differs from the index.")
        rows, raw_bytes = rows + frame.rows, raw_bytes + len(raw)
    return PartReport(tuple(findings), len(index.frames), rows, raw_bytes)


async def _part_findings(objects: OutputObjects, part: StoredPart) -> tuple[str, ...]:
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


def _read_index(data: bytes) -> tuple[PartIndex, bytes]:
    length = index_length(data[-FOOTER_BYTES:])
    begin = len(data) - FOOTER_BYTES - length
    if begin < FRAME_HEADER_BYTES:
        raise OutputDamaged("The index is longer than its part.")
    text = data[begin : len(data) - FOOTER_BYTES]
    index = parse_index(text)
    last = index.frames[-1]
    if last.offset + last.size != begin - FRAME_HEADER_BYTES:
        raise OutputDamaged("The frames do not end where the index begins.")
    return index, text
