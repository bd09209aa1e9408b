"""The documented format is enough to read stored outputs and to verify them."""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import zstandard

from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.output_format import FOOTER_BYTES
from outlast.activities.outputs.reader import verify_output, verify_part, verify_part_file
from tests.support.calls.stored_outputs import keys_of, stored

DOCUMENT = Path(__file__).parents[4] / "docs" / "output-format.md"
ROWS = [{"number": number, "text": "ä€😀" * (number % 7)} for number in range(500)]
CONTENT = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)


def documented_reader() -> Callable[[Path, int, int], Iterator[Any]]:
    (example,) = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, str(DOCUMENT), "exec"), names)
    return names["read_rows"]


@pytest.fixture
async def parts(tmp_path: Path) -> list[Path]:
    objects = OutputObjects.open(str(tmp_path))
    manifest = await stored(objects, CONTENT)
    return [tmp_path / part.key for part in manifest.parts]


async def test_the_documented_program_reads_the_rows(parts: list[Path]) -> None:
    read_rows = documented_reader()
    rows = [row for part in parts for row in read_rows(part, 0, len(ROWS))]
    assert len(parts) > 10
    assert rows == ROWS
    in_first = list(read_rows(parts[0], 0, len(ROWS)))
    assert list(read_rows(parts[0], 1, 3)) == in_first[1:3]


async def test_a_part_is_a_plain_zstandard_file(parts: list[Path]) -> None:
    reader = zstandard.ZstdDecompressor()
    content = b"".join(
        reader.stream_reader(io.BytesIO(part.read_bytes()), read_across_frames=True).read() for part in parts
    )
    assert content == CONTENT


async def test_a_part_as_it_was_written_has_nothing_to_find(parts: list[Path]) -> None:
    reports = [verify_part_file(part) for part in parts]
    assert [report.findings for report in reports] == [()] * len(parts)
    assert sum(report.rows for report in reports) == len(ROWS)
    assert sum(report.raw_bytes for report in reports) == len(CONTENT)


async def test_every_changed_bit_of_a_part_is_found(parts: list[Path]) -> None:
    data = parts[0].read_bytes()
    unnoticed = [position for position in range(len(data)) if not verify_part(_flipped(data, position)).findings]
    assert unnoticed == []


@pytest.mark.parametrize("cut", [0, 1, FOOTER_BYTES - 1, FOOTER_BYTES, 100, -1, -FOOTER_BYTES])
async def test_a_part_that_was_cut_is_found(parts: list[Path], cut: int) -> None:
    assert verify_part(parts[0].read_bytes()[:cut]).findings


async def test_a_whole_output_is_verified_by_its_manifest(tmp_path: Path, parts: list[Path]) -> None:
    objects = OutputObjects.open(str(tmp_path))
    (key,) = await keys_of(objects, "manifests")
    assert await verify_output(tmp_path, key) == ()
    parts[1].write_bytes(parts[2].read_bytes())
    parts[3].unlink()
    findings = await verify_output(objects, key)
    assert [finding.partition(": ")[0] for finding in findings] == [
        part.relative_to(tmp_path).as_posix() for part in (parts[1], parts[3])
    ]


def _flipped(data: bytes, position: int) -> bytes:
    return data[:position] + bytes([data[position] ^ 1]) + data[position + 1 :]
