"""Parts of an output: rows, fields, matches of a filter, or a range of text, for an answer or as a stream."""

import asyncio
import base64
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from outlast.activities.failures.exceptions import OutputError
from outlast.activities.json_values import text_of, value_of
from outlast.activities.media import decoded
from outlast.activities.outputs.contracts import RestoredOutput, RestoreOutputInput
from outlast.activities.outputs.jmespath_client import MAX_JSON_BYTES, Expressions, expressions
from outlast.activities.outputs.jmespath_process import Query
from outlast.activities.outputs.output_format import OutputManifest
from outlast.activities.outputs.reader import OutputReader
from outlast.activities.storages.datasets import selected

_LONGEST_CHARACTER = 4
"""Bytes of the longest character: a smaller part could contain none."""


async def select(reader: OutputReader, request: RestoreOutputInput) -> RestoredOutput:
    """Return the part that `request` selects. Raises `OutputError`: bad_selection or damaged."""
    kind = reader.manifest.kind
    if kind == "rows":
        return await select_rows(reader, request)
    if request.filter or request.fields:
        message = f"Filter and fields need rows; this output is {kind}."
        raise OutputError("bad_selection", message, "Use a query, or a range.")
    if request.query:
        return await _query_value(reader, request)
    if (
        kind == "json"
        and request.offset == 0
        and request.limit is None
        and reader.manifest.raw_size <= request.max_bytes
    ):
        whole = await _read_range(reader, 0, request.max_bytes)
        return restored(reader.manifest, request, value=value_of(whole))
    return await (_select_blob if kind == "binary" else _select_text)(reader, request)


async def _select_text(reader: OutputReader, request: RestoreOutputInput) -> RestoredOutput:
    """Return a range that ends with a whole character."""
    size = max(min(request.limit or request.max_bytes, request.max_bytes), _LONGEST_CHARACTER)
    raw = await _read_range(reader, request.offset, size)
    end = request.offset + len(raw)
    is_last = end >= reader.manifest.raw_size
    text, taken = decoded(raw, reader.manifest.content_type, is_last=is_last)
    return restored(reader.manifest, request, text=text, next_offset=None if is_last else request.offset + taken)


async def _select_blob(reader: OutputReader, request: RestoreOutputInput) -> RestoredOutput:
    """Return a range whose Base64 fits."""
    most = max(1, request.max_bytes // 4 * 3)
    raw = await _read_range(reader, request.offset, min(request.limit or most, most))
    end = request.offset + len(raw)
    next_offset = end if end < reader.manifest.raw_size else None
    return restored(reader.manifest, request, blob_base64=base64.b64encode(raw).decode(), next_offset=next_offset)


async def _query_value(reader: OutputReader, request: RestoreOutputInput) -> RestoredOutput:
    """Return the query's result on the whole value; of a list, elements from `offset` on."""
    if reader.manifest.kind != "json" or reader.manifest.raw_size > MAX_JSON_BYTES:
        raise OutputError(
            "bad_selection",
            f"A query needs rows, or a JSON value of at most {MAX_JSON_BYTES // 2**20} MB.",
            "Restore a range of its text by offset and limit.",
        )
    whole = await _read_range(reader, 0, MAX_JSON_BYTES)
    query = Query(None, request.query, request.max_bytes, paging=request.offset, limit=request.limit)
    async with expressions(query) as evaluator:
        found = await evaluator.evaluate(whole)
    if "value" not in found:
        raise OutputError(
            "bad_selection",
            f"The query's result has {found['size']} bytes, over the limit of {request.max_bytes}.",
            "Request less of it, or raise the limit.",
        )
    return restored(
        reader.manifest,
        request,
        value=found["value"],
        next_offset=found.get("next"),
        oversized_row_bytes=found.get("size"),
    )


async def _read_range(reader: OutputReader, offset: int, size: int) -> bytes:
    return b"".join([piece async for piece in reader.bytes(offset, offset + size)])


SCAN_SECONDS = 4.0
"""A filter that matches few rows stops after this time; the answer has the next offset."""
_WINDOW_ROWS = 1_000
"""Without an expression, rows are read in windows of this many: few answers hold more."""


@dataclass
class _Selection:
    """The items that fit so far. `position` is the row after the last one that was examined."""

    request: RestoreOutputInput
    position: int
    items: list[JsonValue] = field(default_factory=list[JsonValue])
    size: int = 0
    matched: int = 0
    oversized: int | None = None

    def take(self, row: int, item: JsonValue, item_bytes: int) -> bool:
        """Add an item; returns whether there is room for more. An item that does not fit is left for the next answer;
        one that does not fit in any answer is skipped, and its size kept.
        """
        if self.size + item_bytes > self.request.max_bytes:
            self.oversized = None if self.items else item_bytes
            self.position = row if self.items else row + 1
            return False
        self.items.append(item)
        self.matched += 1
        self.size += item_bytes
        self.position = row + 1
        return self.request.limit is None or len(self.items) < self.request.limit


async def select_rows(reader: OutputReader, request: RestoreOutputInput) -> RestoredOutput:
    """Return the rows that `request` selects. Raises `OutputError`: bad_selection or damaged."""
    if request.query and request.fields:
        raise OutputError("bad_selection", "Fields and a query exclude each other.", "Name the fields in the query.")
    found = _Selection(request, request.offset)
    if request.filter or request.query:
        async with expressions(Query(request.filter, request.query, request.max_bytes)) as evaluator:
            await _take_matches(reader, request, evaluator, found)
    else:
        await _take_all(reader, request, found)
    is_left = found.position < reader.manifest.rows
    return restored(
        reader.manifest,
        request,
        items=tuple(found.items),
        next_offset=found.position if is_left else None,
        matched=found.matched if request.filter else None,
        oversized_row_bytes=found.oversized,
    )


async def _take_all(reader: OutputReader, request: RestoreOutputInput, found: _Selection) -> None:
    left = request.limit
    while found.position < reader.manifest.rows and (left is None or left > 0):
        wanted = _WINDOW_ROWS if left is None else min(_WINDOW_ROWS, left)
        async for rows in reader.row_batches(found.position, wanted):
            if not await asyncio.to_thread(_take_rows, found, rows):
                return
        left = None if left is None else left - wanted


def _take_rows(found: _Selection, rows: list[bytes]) -> bool:
    for row in rows:
        if len(row) > found.request.max_bytes and not found.request.fields:
            return found.take(found.position, None, len(row))
        item = selected(row, found.request.fields)
        if not found.take(found.position, item, len(text_of(item)) + 1):
            return False
    return True


async def _take_matches(
    reader: OutputReader, request: RestoreOutputInput, evaluator: Expressions, found: _Selection
) -> None:
    begun = time.monotonic()
    mismatches, mismatch = 0, ""
    async with aclosing(reader.row_batches(request.offset)) as batches:
        async for rows in batches:
            base = found.position
            result = await evaluator.evaluate(b"\n".join(rows))
            mismatches, mismatch = mismatches + result["mismatches"], mismatch or result.get("mismatch", "")
            if not await asyncio.to_thread(_take_found, found, rows, result["found"]):
                return
            found.position = base + result["scanned"]
            if result["scanned"] < len(rows) or time.monotonic() - begun > SCAN_SECONDS:
                break
    if mismatches and mismatches == found.position - request.offset:
        raise OutputError("bad_selection", f"The expression fails on every row: {mismatch}")


def _take_found(found: _Selection, rows: list[bytes], results: list[list[Any]]) -> bool:
    """Each result is a row's number in the batch and, with a query, its result and the result's size."""
    base = found.position
    for result in results:
        number, has_result = int(result[0]), len(result) > 1
        item, size = (result[1], int(result[2])) if has_result else _sized(rows[number], found.request)
        if has_result and item is None and size <= found.request.max_bytes:
            found.matched += 1  # The query's result is null in this row.
        elif not found.take(base + number, item, size + 1):
            return False
    return True


def _sized(row: bytes, request: RestoreOutputInput) -> tuple[JsonValue, int]:
    item = selected(row, request.fields)
    return item, len(text_of(item))


def restored(manifest: OutputManifest, request: RestoreOutputInput, **found: Any) -> RestoredOutput:
    """Return the result of `request`."""
    return RestoredOutput(
        locator=manifest.locator,
        kind=manifest.kind,
        content_type=manifest.content_type,
        size_bytes=manifest.raw_size,
        count=manifest.count,
        offset=request.offset,
        **found,
    )


_RESULT_BYTES = 4 * 1024 * 1024
"""The most bytes of results for one batch of rows (a quarter of a megabyte) or for one value."""
_COPIES_OF_ROWS = 3
_COPIES_OF_RESULTS = 16
"""Memory that a batch of rows takes with what is made of it, in multiples of its size: a query can enlarge it."""
_BATCHES_PER_PROCESS = 32
"""The CPU time of an evaluating process is limited, so a new one is started after this many batches."""


async def rows_stream(
    reader: OutputReader, *, offset: int = 0, limit: int | None = None, fields: Sequence[str] = ()
) -> AsyncGenerator[bytes]:
    """Rows as lines of JSON, in pieces; reduced to `fields` (dot paths) when there are any."""
    _require_rows(reader)
    async with aclosing(reader.row_batches(offset, limit)) as batches:
        async for batch in batches:
            yield b"".join(row + b"\n" for row in (_picked(batch, fields) if fields else batch))
            del batch


async def matches_stream(
    reader: OutputReader,
    *,
    offset: int = 0,
    limit: int | None = None,
    fields: Sequence[str] = (),
    where: str | None = None,
    query: str | None = None,
) -> AsyncGenerator[bytes]:
    """At most `limit` rows from `offset` on for which `where` is true, or the result of `query` for each of them. For a
    JSON value, the result of `query`. Lines of JSON, in pieces. Raises `OutputError` (bad_selection).
    """
    if reader.manifest.kind == "json" and query and not where and not fields:
        yield await _query_whole_value(reader, query)
        return
    _require_rows(reader)
    if query and fields:
        raise OutputError("bad_selection", "Fields and a query exclude each other.", "Name the fields in the query.")
    left, position = limit, offset
    copies = _COPIES_OF_RESULTS if query else _COPIES_OF_ROWS
    while position < reader.manifest.rows and (left is None or left > 0):
        async with AsyncExitStack() as opened:
            batches = await opened.enter_async_context(aclosing(reader.row_batches(position, copies=copies)))
            # With limited room there are no more processes than readers with room.
            rows = await anext(batches, None)
            evaluator = await opened.enter_async_context(expressions(Query(where, query, _RESULT_BYTES)))
            for _ in range(_BATCHES_PER_PROCESS):
                if rows is None or left == 0:
                    break
                answer = await evaluator.evaluate(b"\n".join(rows))
                position += answer["scanned"]
                found = _matching_lines(rows, answer["found"], fields, left)
                left = None if left is None else left - len(found)
                if found:
                    yield b"".join(line + b"\n" for line in found)
                if answer["scanned"] < len(rows):
                    break  # The results have reached their size limit: the rest of the batch is read again.
                del answer, found
                rows = await anext(batches, None)


def _matching_lines(rows: list[bytes], found: list[list[Any]], fields: Sequence[str], most: int | None) -> list[bytes]:
    """Return a line for each of at most `most` matches: the row, its fields, or the query's result."""
    lines: list[bytes] = []
    for number, *result in found:
        if len(lines) == most:
            break
        if not result:
            row = [rows[int(number)]]
            lines += _picked(row, fields) if fields else row
        elif result[0] is not None:
            lines.append(text_of(result[0]))
        elif result[1] > _RESULT_BYTES:
            raise OutputError("bad_selection", f"The query's result for one row has {result[1]} bytes.", "Select less.")
    return lines


def _picked(rows: Sequence[bytes], fields: Sequence[str]) -> list[bytes]:
    return [text_of(selected(row, fields)) for row in rows]


async def _query_whole_value(reader: OutputReader, query: str) -> bytes:
    if reader.manifest.raw_size > MAX_JSON_BYTES:
        message = f"A query needs a JSON value of at most {MAX_JSON_BYTES // 2**20} MB."
        raise OutputError("bad_selection", message, "Read a range.")
    async with (
        reader.whole(copies=_COPIES_OF_ROWS) as whole,
        expressions(Query(None, query, _RESULT_BYTES, paging=0)) as evaluator,
    ):
        found = await evaluator.evaluate(whole)
    if "value" not in found or found.get("next") is not None:
        raise OutputError("bad_selection", "The query's result is too large.", "Ask for less of it.")
    return text_of(found["value"]) + b"\n"


def _require_rows(reader: OutputReader) -> None:
    if reader.manifest.kind != "rows":
        raise OutputError(
            "bad_selection",
            f"This output is {reader.manifest.kind}, not rows.",
            "Request a range of its bytes, or query it if it is a JSON value.",
        )
