"""Results of a batch as JSON lines or CSV: chosen rows and columns, beside the rows that the items were made from."""

import csv
import io
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.batches.contracts import ItemLine, ItemRow, ItemStatus
from outlast.activities.batches.storage import LineReader, LinesDamaged
from outlast.activities.contracts import JsonObject
from outlast.activities.failures.exceptions import OutputError
from outlast.activities.json_values import loads, text_of
from outlast.activities.outputs.reader import OutputReader
from outlast.activities.secrets import masked
from outlast.api.batches.admission import MISSING, value_at
from outlast.api.errors import BadRequest
from outlast.api.spreadsheets import safe_cell
from outlast.contracts.batches import ResultsSelection

COLUMNS = (
    "key index status task_id attempts run_id dataset_id cost_usd seconds rows locator error_category error_message "
    "items result text"
).split()
"""Columns of CSV. Lists and objects are JSON."""
_INPUT = "input"
_ROOTS = {*COLUMNS, *ItemRow.model_fields, _INPUT}


class InputRows:
    """The rows that the items of a batch were made from."""

    def __init__(self, items: LineReader) -> None:
        self._items = items

    async def row(self, index: int) -> JsonObject:
        """The row of an item, without secrets; of an item that was given as arguments, these. Raises `OutputError`."""
        try:
            line = ItemLine.model_validate_json(await self._items.line(index))
        except LinesDamaged as error:
            message, hint = "The items of this batch are no longer stored.", "Read its results without `input`."
            raise OutputError("deleted", message, hint) from error
        row = line.call.get("arguments") if line.row is None else line.row
        return cast(JsonObject, masked(row)) if isinstance(row, dict) else {}


async def result_pieces(
    reader: OutputReader, selection: ResultsSelection, items: LineReader | None = None
) -> AsyncGenerator[bytes]:
    """The selected rows, in pieces. A selection that `needs_input` needs `items`.

    Raises `BadRequest` for a column that does not exist, and `OutputError`.
    """
    columns: list[str] = selection.names or (list(COLUMNS) if selection.form == "csv" else [])
    unknown = [name for name in columns if name.partition(".")[0] not in _ROOTS]
    if unknown:
        raise BadRequest(
            f"There is no column {unknown[0][:100]!r}. Columns: {', '.join(COLUMNS)}, and paths such as `result.title` "
            "and `input.url`."
        )
    inputs = InputRows(items) if selection.needs_input and items is not None else None
    if inputs is not None and selection.with_input and selection.form == "csv":
        columns = [*(f"{_INPUT}.{name}" for name in await inputs.row(0)), *columns]
    if selection.form == "csv":
        yield _csv_lines([columns])
    left = selection.limit
    async with aclosing(_batches(reader, selection.status, selection.offset)) as batches:
        async for rows in batches:
            some = rows if left is None else rows[:left]
            left = None if left is None else left - len(some)
            if some and selection.form == "jsonl" and not columns and inputs is None:
                yield b"".join(row + b"\n" for row in some)
            elif some:
                documents = [await _with_input(row, inputs) for row in some]
                yield _written(documents, columns, selection)
                del documents
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


async def _with_input(row: bytes, inputs: InputRows | None) -> JsonObject:
    fields = cast(JsonObject, loads(row))
    return fields if inputs is None else {_INPUT: await inputs.row(cast(int, fields["index"])), **fields}


def _written(documents: list[JsonObject], columns: list[str], selection: ResultsSelection) -> bytes:
    if selection.form == "csv":
        cells = ([_cell(_value(one, name)) for name in columns] for one in documents)
        return (
            _csv_lines([safe_cell(cell) for cell in row] for row in cells) if selection.csv_safe else _csv_lines(cells)
        )
    if columns:
        names = [_INPUT, *columns] if selection.with_input else columns
        documents = [{name: _value(one, name) for name in names} for one in documents]
    return b"".join(text_of(cast(Any, one)) + b"\n" for one in documents)


def _value(fields: JsonObject, name: str) -> JsonValue:
    """The value of a column; a name with dots may also be that of one column of the input."""
    root, _, path = name.partition(".")
    if name in ("error_category", "error_message"):
        root, path = "error", name.removeprefix("error_")
    value = fields.get(root)
    if path:
        found = value_at(value, path)
        value = None if found is MISSING else cast(JsonValue, found)
    return value


def _cell(value: JsonValue) -> object:
    return text_of(cast(Any, value)).decode() if isinstance(value, dict | list) else "" if value is None else value


def _csv_lines(rows: Iterable[Iterable[object]]) -> bytes:
    """RFC 4180."""
    written = io.StringIO()
    csv.writer(written).writerows(rows)
    return written.getvalue().encode(errors="replace")
