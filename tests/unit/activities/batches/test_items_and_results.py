"""Blocks of items, and growing results, in a store on disk."""

import json
from pathlib import Path

import pytest

from outlast.activities.batches import storage
from outlast.activities.batches.contracts import BatchPlace, Lines, ResultsState
from outlast.activities.batches.storage import LineReader, LinesDamaged, LineWriter, ResultsWriter
from outlast.activities.object_store import OutputObjects
from outlast.activities.outputs.reader import open_output

BATCH = "batch-0123"
PLACE = BatchPlace(
    batch_id=BATCH,
    caller_id="ann",
    call={},
    summary={},
    items=Lines(digest="0" * 64, count=0),
    starts_runs=False,
    is_paid=False,
    share=10,
    ttl_seconds=3_600,
)


@pytest.fixture
def objects(tmp_path: Path) -> OutputObjects:
    return OutputObjects.open(str(tmp_path))


async def written(objects: OutputObjects, lines: list[bytes]) -> Lines:
    writer = LineWriter(objects, namespace="default", batch_id=BATCH)
    for line in lines:
        await writer.add(line)
    return await writer.finish()


def reader(objects: OutputObjects, lines: Lines) -> LineReader:
    return LineReader(objects, lines, namespace="default", batch_id=BATCH)


async def test_lines_are_read_by_number_and_from_one_on(
    objects: OutputObjects, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storage, "BLOCK_BYTES", 200)
    lines = [json.dumps({"n": number, "text": "x" * (number % 60)}).encode() for number in range(100)]
    kept = await written(objects, lines)
    assert kept.count == 100
    assert [await reader(objects, kept).line(number) for number in (0, 7, 50, 99)] == [lines[n] for n in (0, 7, 50, 99)]
    assert [await reader(objects, kept).line(number) for number in range(42, len(lines))] == lines[42:]
    assert await written(objects, lines) == kept
    with pytest.raises(LinesDamaged):
        await reader(objects, kept).line(100)


def change_blocks(folder: Path, kept: Lines) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and path.name != kept.digest:
            path.write_bytes(path.read_bytes()[:-1] + b"!")


async def test_a_block_that_was_changed_is_not_read(objects: OutputObjects, tmp_path: Path) -> None:
    kept = await written(objects, [b"1", b"2"])
    change_blocks(tmp_path, kept)
    with pytest.raises(LinesDamaged):
        await reader(objects, kept).line(0)
    with pytest.raises(LinesDamaged):
        await reader(objects, Lines(digest="f" * 64, count=2)).line(0)


def rows(first: int, last: int) -> list[bytes]:
    return [json.dumps({"n": number, "text": "y" * 50}).encode() for number in range(first, last)]


async def read(objects: OutputObjects, locator: str, offset: int = 0) -> list[bytes]:
    return [row async for row in (await open_output(objects, locator, "ann")).rows(offset)]


async def test_results_are_readable_while_they_grow(objects: OutputObjects, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(storage, "CLOSED_BYTES", 1_000)
    monkeypatch.setattr(storage, "_CHAINED", 3)
    locator = str(storage.results_locator("ann", BATCH))
    state = ResultsState()
    for first in range(0, 300, 7):
        # Each time by another process, as after a crash.
        state = await ResultsWriter(objects, PLACE, state, namespace="default").append(rows(first, first + 7))
        assert await read(objects, locator, offset=first) == rows(first, first + 7)
    assert state.rows == 301
    assert state.closed > 2 * 3  # Several objects name the closed parts.
    assert await read(objects, locator) == rows(0, 301)
    manifest = await ResultsWriter(objects, PLACE, state, namespace="default").close()
    assert (manifest.locator, manifest.count) == (locator, 301)
    assert [field.name for field in manifest.fields] == ["n", "text"]


async def test_nobody_builds_on_what_an_attempt_wrote_that_was_given_up(objects: OutputObjects) -> None:
    first = ResultsWriter(objects, PLACE, ResultsState(), namespace="default")
    kept = await first.append(rows(0, 3))
    second = ResultsWriter(objects, PLACE, kept, namespace="default")
    await first.append([b'{"n": "of the first one"}'])
    state = await second.append(rows(3, 5))
    assert await read(objects, str(storage.results_locator("ann", BATCH))) == rows(0, 5)
    assert state.rows == 5


async def test_the_next_leg_writes_other_parts(objects: OutputObjects) -> None:
    old = ResultsWriter(objects, PLACE, ResultsState(), namespace="default")
    await old.append(rows(0, 4))
    new = old.after()
    await new.append(rows(2, 4), publish=False)
    locator = str(storage.results_locator("ann", BATCH))
    assert await read(objects, locator) == rows(0, 4)
    await new.publish()
    assert await read(objects, locator) == rows(2, 4)
