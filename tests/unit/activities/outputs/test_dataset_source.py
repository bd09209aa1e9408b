"""Rows out of a streamed body: the same whatever the pieces in which it arrives."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any, cast

import pytest
from apify_client import ApifyClientAsync
from apify_client.http_clients import HttpResponse
from hypothesis import given
from hypothesis import strategies as st

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.outputs.dataset_source import GrowingDataset, RowBatch, row_batches
from outlast.activities.outputs.output_format import MAX_ROW_BYTES


class Body:
    """A body that arrives in pieces."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self.read = 0

    async def aiter_bytes(self) -> AsyncIterator[bytes]:
        for chunk in self._chunks:
            self.read += len(chunk)
            yield chunk


async def batches_of(body: Body) -> list[RowBatch]:
    return [batch async for batch in row_batches(cast("HttpResponse", body), 7)]


@given(
    rows=st.lists(st.dictionaries(st.text(max_size=5), st.integers() | st.text(), max_size=3), max_size=30),
    cuts=st.lists(st.integers(0, 2_000), max_size=10),
    separator=st.sampled_from([b"\n", b"\n\n", b"\r\n"]),
    is_ended=st.booleans(),
)
def test_rows_do_not_tell_in_which_pieces_they_came(
    rows: list[Any], cuts: list[int], separator: bytes, is_ended: bool
) -> None:
    body = separator.join(json.dumps(row).encode() for row in rows) + (separator if is_ended else b"")
    edges = [0, *sorted(min(cut, len(body)) for cut in cuts), len(body)]
    chunks = [body[start:end] for start, end in itertools.pairwise(edges)]
    batches = asyncio.run(batches_of(Body(chunks)))
    lines = b"".join(batch.lines for batch in batches)
    assert [json.loads(line) for line in lines.splitlines()] == rows
    assert sum(batch.rows for batch in batches) == len(rows) == lines.count(b"\n")


async def test_a_large_body_comes_in_batches_of_whole_rows() -> None:
    row = b'{"text":"' + b"x" * 1_000 + b'"}\n'
    body = row * 5_000
    batches = await batches_of(Body(body[start : start + 65_536] for start in range(0, len(body), 65_536)))
    assert b"".join(batch.lines for batch in batches) == body
    assert len(batches) == 5
    assert all(batch.lines.endswith(b"\n") for batch in batches)


@pytest.mark.parametrize("before", [0, 3])
async def test_a_row_without_end_is_refused_before_it_is_read(before: int) -> None:
    body = Body([b'{"a":1}\n' * before + b'{"text":"', *([b"x" * 1_000_000] * 200)])
    with pytest.raises(ToolFailure) as refused:
        await batches_of(body)
    assert refused.value.envelope.message.startswith(f"Row {7 + before} of the dataset is larger than 64 MB")
    assert body.read < MAX_ROW_BYTES + 3_000_000


async def test_a_giant_row_among_others_is_refused_by_its_number() -> None:
    with pytest.raises(ToolFailure, match="Row 8 "):
        await batches_of(Body([b"{}\n", b'"' + b"x" * MAX_ROW_BYTES + b'"\n{}\n']))


@pytest.mark.parametrize("end", [b'{"a":', b'{"a":1}\n{"b', b'"'])
async def test_a_body_that_ends_in_the_middle_of_a_row_is_torn(end: bytes) -> None:
    with pytest.raises(ConnectionError, match="middle of a row"):
        await batches_of(Body([b"{}\n", end]))


class Shows:
    """A platform whose replicas count `counted` rows, and show two of `shown` rows in a page."""

    def __init__(self, shown: int, *counted: int) -> None:
        self.shown = shown
        self.counted = list(counted)
        self.offsets: list[int] = []

    def dataset(self, _: str) -> "Shows":
        return self

    def _count(self) -> int:
        return self.counted.pop(0) if len(self.counted) > 1 else self.counted[0]

    async def get(self) -> Any:
        return SimpleNamespace(item_count=self._count())

    @asynccontextmanager
    async def stream_items(self, *, offset: int, **_: object) -> AsyncIterator[Any]:
        self.offsets.append(offset)
        rows = range(offset, min(self.shown, offset + 2))
        body = Body([b"".join(b"%d\n" % row for row in rows)])
        headers = {"x-apify-pagination-total": str(self._count())}
        yield SimpleNamespace(headers=headers, aiter_bytes=body.aiter_bytes)


class Roomy:
    is_scarce = False

    @asynccontextmanager
    async def hold(self, size_bytes: int) -> AsyncIterator[Any]:
        assert size_bytes > 0
        yield SimpleNamespace(holds=lambda _: None)


READS: list[Callable[[GrowingDataset], Any]] = [
    lambda dataset: dataset.new_rows(),
    lambda dataset: dataset.new_rows_into(Roomy()),
]


@pytest.mark.parametrize("reads", READS, ids=["at once", "into room"])
async def test_a_short_page_is_not_the_end_while_more_rows_are_counted(reads: Callable[[GrowingDataset], Any]) -> None:
    platform = Shows(5, 5, 3, 5, 5)  # a replica that lags counts less
    dataset = GrowingDataset(cast(ApifyClientAsync, platform), "d")
    assert b"".join([batch.lines async for batch in reads(dataset)]) == b"0\n1\n2\n3\n4\n"
    assert (platform.offsets, dataset.offset, dataset.is_behind) == ([0, 2, 4], 5, False)


@pytest.mark.parametrize("reads", READS, ids=["at once", "into room"])
async def test_rows_that_are_counted_and_not_shown_are_left_for_later(reads: Callable[[GrowingDataset], Any]) -> None:
    platform = Shows(2, 4)
    dataset = GrowingDataset(cast(ApifyClientAsync, platform), "d")
    assert b"".join([batch.lines async for batch in reads(dataset)]) == b"0\n1\n"
    assert (dataset.offset, dataset.counted, dataset.is_behind) == (2, 4, True)
    platform.shown, platform.counted = 4, [1]
    assert await dataset.count() == 4
    assert b"".join([batch.lines async for batch in reads(dataset)]) == b"2\n3\n"
    assert (dataset.offset, dataset.counted, dataset.is_behind) == (4, 4, False)


async def test_there_are_at_least_as_many_rows_as_were_read() -> None:
    dataset = GrowingDataset(cast(ApifyClientAsync, Shows(9, 3)), "d", offset=7)
    assert await dataset.count() == 7


class Hanging:
    """A platform of which each response hangs until its time limit. It notes the limits."""

    def __init__(self) -> None:
        self.limits: list[object] = []

    def dataset(self, _: str) -> "Hanging":
        return self

    @asynccontextmanager
    async def stream_items(self, *, timeout: object = "long", **_: object) -> AsyncIterator[HttpResponse]:
        self.limits.append(timeout)
        raise ConnectionError("Request timeout exceeded.")
        yield  # pyright: ignore[reportUnreachable]


async def test_a_response_that_hangs_delays_a_waiting_client_for_half_a_minute_not_for_six() -> None:
    platform = Hanging()
    dataset = GrowingDataset(cast(ApifyClientAsync, platform), "d")
    for rows in (dataset.new_rows_into(Roomy()), dataset.new_rows()):
        with pytest.raises(ConnectionError):
            await anext(rows)
    assert platform.limits == ["medium", "long"]
