"""Reads the rows of a dataset page by page, each as the platform sends it, but for text that is not valid Unicode."""

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import dataclass, field

from outlast.activities import apify
from outlast.activities.contracts import ErrorCategory
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.outputs.output_format import MAX_ROW_BYTES
from outlast.activities.outputs.reader import Room
from outlast.activities.platform.valid_responses import replaced_in

_FIRST_PAGE_ROWS = 1_000
_MOST_PAGE_ROWS = 50_000
_PAGE_BYTES = 32 * 1024 * 1024
"""Approximate size of a page: large enough for few requests, small enough for the timeout of one."""
_BATCH_BYTES = 1024 * 1024
_FIRST_SMALL_PAGE_ROWS = 50
_FIRST_SMALL_PAGE_BYTES = 64 * 1024
_MOST_SMALL_PAGE_BYTES = 1024 * 1024
_SMALL_BATCH_BYTES = 16 * 1024
"""Pages that are read into limited room begin small, and grow while they are taken."""
_COPIES_OF_BATCH = 2
"""Copies that readers make of the batch that they are sending."""
_READING_BYTES = 1024 * 1024
"""Memory of a request while its response is read."""
_PROBES = 7
_PROBE_PAUSE_SECONDS = 0.5
"""A replica can lag a few seconds behind the one that answered before."""


@dataclass(frozen=True)
class RowBatch:
    """Whole rows, each ended by a newline. `replaced_text`: up to here, invalid Unicode was replaced in this page."""

    lines: bytes
    rows: int
    replaced_text: bool = False


class _NoRowFits(Exception):
    """The first row is larger than what may be read."""


@dataclass
class _Page:
    """Rows that were read, the last batch first, and the error that has kept further ones from coming, if any. The
    error is in a list, so that it can be taken out: an error keeps its frames alive, with all that they have read.
    """

    batches: list[RowBatch] = field(default_factory=list[RowBatch])
    failed: list[Exception] = field(default_factory=list[Exception])
    is_cut_off: bool = False
    rows: int = 0
    size_bytes: int = 0
    largest_bytes: int = 0

    def add(self, batch: RowBatch) -> None:
        """Add the next batch."""
        self.batches.append(batch)
        self.rows += batch.rows
        self.size_bytes += len(batch.lines)
        self.largest_bytes = max(self.largest_bytes, len(batch.lines))


class GrowingDataset:
    """A dataset that a run may still be writing to, and how far it was read: each row once, whichever replica answers.
    Rows are only ever added at its end, and a replica of the platform that lags shows a beginning of them. So the
    number of rows read is the next offset, whatever an answer counts: `counted` is the highest count in any answer.
    """

    def __init__(self, client: "apify.ApifyClientAsync", dataset_id: str, *, offset: int = 0) -> None:
        self._client = client
        self.dataset_id = dataset_id
        self.offset = offset
        self.counted = 0

    @property
    def is_behind(self) -> bool:
        """True if the platform has counted rows that it has not shown yet."""
        return self.offset < self.counted

    async def new_rows(self) -> AsyncGenerator[RowBatch]:
        """Yield the rows after `offset` that are shown now, without empty lines. `offset` moves with each batch. Raises
        `NotFoundError` for an unknown dataset, `ToolFailure` for a row that is too large, `ConnectionError` for a page
        whose end is missing. Rows that came before that are read.
        """
        page_rows = _FIRST_PAGE_ROWS
        while True:
            rows = size = 0
            async with aclosing(self._page(page_rows, _BATCH_BYTES)) as batches:
                async for batch in batches:
                    self.offset += batch.rows
                    rows, size = rows + batch.rows, size + len(batch.lines)
                    yield batch
            if self._is_last(rows, page_rows):
                return
            page_rows = max(100, min(_MOST_PAGE_ROWS, _PAGE_BYTES * rows // size))

    async def new_rows_into(self, room: Room) -> AsyncGenerator[RowBatch]:
        """As `new_rows`, for a reader who may be slow: page by page, and nothing is held open between them. Each page
        is in `room` until its last batch was taken.
        """
        page_rows, page_bytes = _FIRST_SMALL_PAGE_ROWS, _FIRST_SMALL_PAGE_BYTES
        while True:
            async with room.hold(2 * page_bytes + _READING_BYTES) as held:
                page = await self._whole_page(page_rows, 2 * page_bytes)
                rows, size = page.rows, page.size_bytes
                held.holds(size + _COPIES_OF_BATCH * page.largest_bytes)
                while page.batches:
                    batch = page.batches.pop()
                    self.offset += batch.rows
                    yield batch
                    del batch
            if page.failed:
                raise page.failed.pop()
            if page.is_cut_off and not rows:  # not one row fits
                page_rows, page_bytes = 1, 4 * page_bytes
                continue
            if not page.is_cut_off and self._is_last(rows, page_rows):
                return
            most = _FIRST_SMALL_PAGE_BYTES if room.is_scarce else _MOST_SMALL_PAGE_BYTES
            page_bytes = max(min(2 * page_bytes, most), size // rows)
            page_rows = max(1, min(_MOST_PAGE_ROWS, page_bytes * rows // size))

    async def _whole_page(self, page_rows: int, most_bytes: int) -> "_Page":
        """At most `page_rows` rows. Rows beyond `most_bytes` are left for the next page."""
        page = _Page()
        try:
            async with aclosing(self._page(page_rows, _SMALL_BATCH_BYTES, most_bytes)) as batches:
                async for batch in batches:
                    page.add(batch)
                    if page.size_bytes >= most_bytes:
                        page.is_cut_off = True
                        break
        except _NoRowFits:
            page.is_cut_off = True
        except Exception as error:  # noqa: BLE001  # raised again once the rows before it were taken
            page.failed.append(error)
        page.batches.reverse()
        return page

    async def _page(self, page_rows: int, batch_bytes: int, most_bytes: int | None = None) -> AsyncGenerator[RowBatch]:
        """The rows after `offset`, `page_rows` at most. Raises `_NoRowFits` for a first row beyond `most_bytes`. Small
        pages have 30 seconds: a response that hangs delays a client who waits for rows no longer than that.
        """
        is_small = most_bytes is not None and most_bytes <= 2 * _MOST_SMALL_PAGE_BYTES
        async with self._client.dataset(self.dataset_id).stream_items(
            item_format="jsonl", offset=self.offset, limit=page_rows, timeout="medium" if is_small else "long"
        ) as response:
            self._learn(int(response.headers.get("x-apify-pagination-total") or 0))
            async for batch in row_batches(response, self.offset, batch_bytes, most_bytes):
                yield batch

    def _is_last(self, rows: int, page_rows: int) -> bool:
        """True if a page of so many rows is the last one. A short page is not the end when the platform counts more
        rows. The count alone is not reliable.
        """
        return rows == 0 or (rows < page_rows and not self.is_behind)

    async def count(self) -> int:
        """Return the number of rows, as far as the platform has counted them. Raises what apify-client raises."""
        found = await self._client.dataset(self.dataset_id).get()
        if found is not None:
            self._learn(found.item_count)
        return max(self.counted, self.offset)

    def _learn(self, count: int) -> None:
        self.counted = max(self.counted, count)


async def rows_from(client: "apify.ApifyClientAsync", dataset_id: str, offset: int) -> AsyncIterator[RowBatch]:
    """Rows from `offset` to the end of a dataset that is complete, in batches of about a megabyte. Rows that the
    platform counts and does not show are awaited for a few seconds. Raises as `GrowingDataset` does.
    """
    dataset = GrowingDataset(client, dataset_id, offset=offset)
    for probe in range(_PROBES):
        if probe:
            await asyncio.sleep(_PROBE_PAUSE_SECONDS)
        async for batch in dataset.new_rows():
            yield batch
        if not dataset.is_behind:
            await dataset.count()
        if not dataset.is_behind:
            return


async def row_batches(
    response: "apify.HttpResponse", offset: int = 0, batch_bytes: int = _BATCH_BYTES, most_bytes: int | None = None
) -> AsyncIterator[RowBatch]:
    """The rows of one streamed body of JSON lines, in batches of about so many bytes. `offset` is the number of the
    first row. Raises `_NoRowFits` for a row beyond `most_bytes`.
    """
    pieces: list[bytes] = []
    size, has_row = 0, False
    async for chunk in response.aiter_bytes():
        pieces.append(chunk)
        size += len(chunk)
        has_row = has_row or b"\n" in chunk
        if size >= batch_bytes and has_row:
            whole, _, rest = b"".join(pieces).rpartition(b"\n")
            batch = _batch(whole + b"\n", offset, replaced_text=replaced_in(response))
            offset += batch.rows
            yield batch
            pieces, size, has_row = [rest], len(rest), False
        elif size > MAX_ROW_BYTES:
            raise _row_too_large(offset)
        elif most_bytes is not None and size > most_bytes and not has_row:
            raise _NoRowFits
    last = b"".join(pieces)
    if last.strip():
        _refuse_partial_row(last.rpartition(b"\n")[2])
        yield _batch(last if last.endswith(b"\n") else last + b"\n", offset, replaced_text=replaced_in(response))


def _batch(lines: bytes, offset: int, *, replaced_text: bool) -> RowBatch:
    """Return the batch of `lines` without empty ones. Raises `ToolFailure` for a row that is too large."""
    if lines.startswith(b"\n") or b"\n\n" in lines or b"\r" in lines:
        kept = [line for line in lines.split(b"\n") if line.strip()]
        lines = b"".join(line + b"\n" for line in kept)
    if len(lines) > MAX_ROW_BYTES:
        for number, line in enumerate(lines.split(b"\n")):
            if len(line) > MAX_ROW_BYTES:
                raise _row_too_large(offset + number)
    return RowBatch(lines, lines.count(b"\n"), replaced_text)


def _row_too_large(row: int) -> ToolFailure:
    return ToolFailure.of(
        ErrorCategory.VALIDATION,
        f"Row {row} of the dataset is larger than {MAX_ROW_BYTES // 2**20} MB, the limit of the output store.",
        "Let the Actor store such content as a record of its key-value store, and the record's key in the row.",
    )


def _refuse_partial_row(last_line: bytes) -> None:
    """Raise when the last line is not JSON: a body that ends without a newline may be cut off."""
    if not last_line.strip():
        return
    try:
        json.loads(last_line)
    except ValueError:
        raise ConnectionError("The platform's response ended in the middle of a row.") from None
