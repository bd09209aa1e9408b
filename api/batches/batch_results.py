"""The results of a batch for download: as JSON lines or CSV, those of one status only if asked."""

import csv
import io
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, cast

from outlast.activities.batches.contracts import ItemStatus
from outlast.activities.json_values import loads, text_of
from outlast.activities.outputs.reader import OutputReader
from outlast.api.spreadsheets import safe_cell
from outlast.contracts.batches import ResultsSelection

COLUMNS = (
    "key",
    "index",
    "status",
    "task_id",
    "attempts",
    "run_id",
    "dataset_id",
    "cost_usd",
    "seconds",
    "rows",
    "locator",
    "error_category",
    "error_message",
    "items",
    "result",
    "text",
)
"""Of CSV. Lists and objects are JSON."""


async def result_pieces(reader: OutputReader, selection: ResultsSelection) -> AsyncGenerator[bytes]:
    """The selected rows, in pieces."""
    form = selection.form
    if form == "csv":
        yield _csv_lines([COLUMNS])
    left = selection.limit
    async with aclosing(_batches(reader, selection.status, selection.offset)) as batches:
        async for rows in batches:
            some = rows if left is None else rows[:left]
            left = None if left is None else left - len(some)
            if some and form == "jsonl":
                yield b"".join(row + b"\n" for row in some)
            elif some:
                yield _csv_of(some, safe=selection.csv_safe)
            del rows, some
            if left == 0:
                return


async def _batches(reader: OutputReader, status: ItemStatus | None, offset: int) -> AsyncGenerator[list[bytes]]:
    async with aclosing(reader.row_batches(offset if status is None else 0)) as batches:
        async for rows in batches:
            if status is None:
                yield rows
            else:
                chosen = [row for row in rows if loads(row)["status"] == status]
                skipped = min(offset, len(chosen))
                offset -= skipped
                yield chosen[skipped:]
                del chosen
            del rows


def _csv_of(rows: list[bytes], *, safe: bool) -> bytes:
    cells = map(_cells, rows)
    return _csv_lines([safe_cell(cell) for cell in row] for row in cells) if safe else _csv_lines(cells)


def _cells(row: bytes) -> list[Any]:
    fields = cast(dict[str, Any], loads(row))
    error = cast(dict[str, Any], fields.get("error") or {})
    fields = {**fields, "error_category": error.get("category"), "error_message": error.get("message")}
    return [_cell(fields.get(name)) for name in COLUMNS]


def _cell(value: object) -> object:
    return text_of(cast(Any, value)).decode() if isinstance(value, dict | list) else "" if value is None else value


def _csv_lines(rows: Any) -> bytes:
    """RFC 4180."""
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode(errors="replace")
