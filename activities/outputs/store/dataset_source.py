"""Reads the rows of a dataset page by page, each row exactly as the platform sends it."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.outputs.format.frames import MAX_ROW_BYTES
from outlast.activities.platform import apify

_FIRST_PAGE_ROWS = 1_000
_MOST_PAGE_ROWS = 50_000
_PAGE_BYTES = 32 * 1024 * 1024
"""Approximate size of a page: large enough for few requests, small enough for the timeout of one."""
_BATCH_BYTES = 1024 * 1024


@dataclass(frozen=True)
class RowBatch:
    """Whole rows, each ended by a newline."""

    lines: bytes
    rows: int


async def rows_from(client: "apify.ApifyClientAsync", dataset_id: str, offset: int) -> AsyncIterator[RowBatch]:
    """Rows from `offset` to the end, in batches of about a megabyte, without empty lines.

    Raises `NotFoundError` for an unknown dataset, `ToolFailure` for a row that is too large, `ConnectionError` for a
    page whose end is missing.
    """
    page_rows = _FIRST_PAGE_ROWS
    while True:
        rows = size = 0
        async with client.dataset(dataset_id).stream_items(
            item_format="jsonl", offset=offset, limit=page_rows
        ) as response:
            total = int(response.headers.get("x-apify-pagination-total") or 0)
            async for batch in row_batches(response, offset):
                rows, size = rows + batch.rows, size + len(batch.lines)
                yield batch
        offset += rows
        # A short page is not the end when the platform counts more rows. The count alone is not reliable: it may lag.
        if rows == 0 or (rows < page_rows and offset >= total):
            return
        page_rows = max(100, min(_MOST_PAGE_ROWS, _PAGE_BYTES * rows // size))


async def row_batches(response: "apify.HttpResponse", offset: int = 0) -> AsyncIterator[RowBatch]:
    """The rows of one streamed body of JSON lines; `offset` is the number of its first row."""
    pieces: list[bytes] = []
    size, has_row = 0, False
    async for chunk in response.aiter_bytes():
        pieces.append(chunk)
        size += len(chunk)
        has_row = has_row or b"\n" in chunk
        if size >= _BATCH_BYTES and has_row:
            whole, _, rest = b"".join(pieces).rpartition(b"\n")
            batch = _batch(whole + b"\n", offset)
            offset += batch.rows
            yield batch
            pieces, size, has_row = [rest], len(rest), False
        elif size > MAX_ROW_BYTES:
            raise _row_too_large(offset)
    last = b"".join(pieces)
    if last.strip():
        _refuse_partial_row(last.rpartition(b"\n")[2])
        yield _batch(last if last.endswith(b"\n") else last + b"\n", offset)


def _batch(lines: bytes, offset: int) -> RowBatch:
    """The batch of `lines` without empty ones. Raises `ToolFailure` for a row that is too large."""
    if lines.startswith(b"\n") or b"\n\n" in lines or b"\r" in lines:
        kept = [line for line in lines.split(b"\n") if line.strip()]
        lines = b"".join(line + b"\n" for line in kept)
    if len(lines) > MAX_ROW_BYTES:
        for number, line in enumerate(lines.split(b"\n")):
            if len(line) > MAX_ROW_BYTES:
                raise _row_too_large(offset + number)
    return RowBatch(lines, lines.count(b"\n"))


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
