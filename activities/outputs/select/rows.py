"""Selects rows of an output: from an offset on, those that match a filter, reduced to fields or a query's result."""

import asyncio
import time
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from pydantic import JsonValue

from outlast.activities.json_values import text_of
from outlast.activities.outputs.contracts import RestoredOutput, RestoreOutputInput
from outlast.activities.outputs.format.errors import OutputError
from outlast.activities.outputs.format.manifest import OutputManifest
from outlast.activities.outputs.select.jmespath_client import Expressions, expressions
from outlast.activities.outputs.select.jmespath_process import Query
from outlast.activities.outputs.store.reader import OutputReader
from outlast.activities.storages.rows import selected

SCAN_SECONDS = 4.0
"""A filter that matches few rows stops after this time; the answer says where to continue."""
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
    """The rows that `request` selects. Raises `OutputError`: bad_selection or damaged."""
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
    """The result of `request`."""
    return RestoredOutput(
        locator=manifest.locator,
        kind=manifest.kind,
        content_type=manifest.content_type,
        size_bytes=manifest.raw_size,
        count=manifest.count,
        offset=request.offset,
        **found,
    )
