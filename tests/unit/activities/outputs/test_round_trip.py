"""Whatever is written comes back, byte for byte, however it arrived and whatever was interrupted."""

import asyncio
import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from outlast.activities.outputs.reader import OutputReader, open_output
from tests.support.calls.stored_outputs import (
    CALLER,
    bytes_of,
    keys_of,
    objects_in_memory,
    rows_of,
    stored,
    stored_in_pages,
)

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=8,
)


@st.composite
def raw_rows(draw: st.DrawFn) -> bytes:
    """JSON as a platform may send it: unicode escaped or not, with spaces or not, with names that come twice."""
    value = draw(json_values)
    text = json.dumps(
        value, ensure_ascii=draw(st.booleans()), separators=draw(st.sampled_from([(",", ":"), (", ", ": ")]))
    )
    text = draw(st.sampled_from([text, f'{{"a":{text},"a":null}}', f'{{"a":{text}}}', "{}", "[]"]))
    return text.encode(errors="backslashreplace")


rows_lists = st.lists(raw_rows() | st.integers(1, 700).map(lambda size: b'"%s"' % (b"x" * size)), max_size=60)
page_sizes = st.lists(st.integers(1, 25), min_size=1, max_size=5)
crash_points = st.lists(st.integers(0, 8), max_size=4)


@given(rows=rows_lists, pages=page_sizes, crashes=crash_points, data=st.data())
@example(rows=[], pages=[1], crashes=[], data=None)
@settings(max_examples=150)
def test_rows_come_back_identical_whole_and_in_any_slice(
    rows: list[bytes], pages: list[int], crashes: list[int], data: Any
) -> None:
    async def scenario() -> None:
        objects = objects_in_memory()
        manifest = await stored_in_pages(objects, rows, pages, crashes)
        reader = await open_output(objects, manifest.locator, CALLER.id)
        assert await rows_of(reader) == rows
        assert await bytes_of(reader) == b"".join(row + b"\n" for row in rows)
        assert (manifest.count, manifest.rows) == (len(rows), len(rows))
        if data is None:
            return
        offset = data.draw(st.integers(0, len(rows) + 2))
        limit = data.draw(st.none() | st.integers(1, len(rows) + 2))
        end = None if limit is None else offset + limit
        assert await rows_of(reader, offset, limit) == rows[offset:end]
        # A reader that knows no index yet finds the same.
        assert await rows_of(OutputReader(objects, manifest), offset, limit) == rows[offset:end]

    asyncio.run(scenario())


@given(rows=rows_lists, pages=page_sizes, crashes=crash_points)
@settings(max_examples=80)
def test_digest_locator_and_summary_do_not_tell_how_the_rows_arrived(
    rows: list[bytes], pages: list[int], crashes: list[int]
) -> None:
    async def scenario() -> None:
        in_one_go = await stored(objects_in_memory(), b"".join(row + b"\n" for row in rows))
        in_pages = await stored_in_pages(objects_in_memory(), rows, pages, crashes)
        times = {"created_at": in_one_go.created_at, "expires_at": in_one_go.expires_at}
        # Only the names of uploads may tell of the writings, and here both have the same.
        assert in_pages.model_copy(update=times) == in_one_go

    asyncio.run(scenario())


@given(content=st.binary(max_size=3_000), start=st.integers(0, 3_100), length=st.integers(1, 3_100))
@settings(max_examples=100)
def test_any_range_of_bytes_comes_back(content: bytes, start: int, length: int) -> None:
    async def scenario() -> None:
        objects = objects_in_memory()
        manifest = await stored(objects, content, kind="binary", content_type="application/octet-stream")
        reader = await open_output(objects, manifest.locator, CALLER.id)
        assert await bytes_of(reader) == content
        assert await bytes_of(reader, start, start + length) == content[start : start + length]

    asyncio.run(scenario())


@given(rows=rows_lists, pages=page_sizes, crashes=crash_points)
@settings(max_examples=50)
def test_storing_the_same_again_changes_nothing(rows: list[bytes], pages: list[int], crashes: list[int]) -> None:
    async def scenario() -> None:
        objects = objects_in_memory()
        first = await stored_in_pages(objects, rows, pages, crashes)
        keys = await keys_of(objects)
        again = await stored_in_pages(objects, rows, [len(rows) + 1], [])
        assert again == first
        assert await keys_of(objects) == keys

    asyncio.run(scenario())


async def test_a_row_larger_than_a_part_is_a_row_like_any_other() -> None:
    objects = objects_in_memory()
    rows = [b'{"n":1}', json.dumps({"text": "ü" * 9_000_000}).encode(), b'{"n":3}']
    manifest = await stored_in_pages(objects, rows, [1], [1, 1])
    reader = await open_output(objects, manifest.locator, CALLER.id)
    assert await rows_of(reader) == rows
    assert await rows_of(reader, 2, 1) == rows[2:]
