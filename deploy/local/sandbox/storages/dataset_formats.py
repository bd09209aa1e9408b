"""Rows formatted as JSON, JSON lines or CSV, piece by piece."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import Any, cast

from outlast.deploy.local.sandbox.json_object import parse
from outlast.deploy.local.sandbox.storages.dataset_views import View

Blocks = Iterable[list[bytes]]

CONTENT_TYPES = {
    "json": "application/json; charset=utf-8",
    "jsonl": "application/x-ndjson; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
}


def json_pieces(blocks: Blocks, view: View) -> Iterator[bytes]:
    """One JSON array with one row per line."""
    opening = b"["
    for block in blocks:
        text = b",\n".join(view.lines(block))
        if text:
            yield opening + text
            opening = b",\n"
    yield b"[]" if opening == b"[" else b"]"


def jsonl_pieces(blocks: Blocks, view: View) -> Iterator[bytes]:
    """One row per line."""
    for block in blocks:
        text = b"\n".join(view.lines(block))
        if text:
            yield text + b"\n"


def csv_pieces(
    blocks: Blocks, view: View, columns: list[str], *, delimiter: str, bom: bool, header: bool
) -> Iterator[bytes]:
    """A header and one line per row. Nested values have columns such as `a/b` and `list/0`."""
    if bom:
        yield "\ufeff".encode()
    buffer = io.StringIO()
    writer = csv.DictWriter(
        buffer, columns, restval="", extrasaction="ignore", delimiter=delimiter, lineterminator="\n"
    )
    if header and columns:
        writer.writeheader()
    for block in blocks:
        for line in view.lines(block):
            writer.writerow(flat_row(parse(line)))
        yield buffer.getvalue().encode(errors="replace")
        buffer.seek(0)
        buffer.truncate()


def csv_columns(blocks: Blocks, view: View) -> list[str]:
    """All columns that the rows need, in the order of their first use."""
    columns: dict[str, None] = {}
    for block in blocks:
        for line in view.lines(block):
            columns.update(dict.fromkeys(flat_row(parse(line))))
    return list(columns)


def flat_row(item: object) -> dict[str, str]:
    """A row of nested values as a flat row of strings."""
    row: dict[str, str] = {}
    _flatten_into(row, "", item)
    return row


def _flatten_into(row: dict[str, str], path: str, value: object) -> None:
    match value:
        case dict():
            for key, inner in cast("dict[str, Any]", value).items():
                _flatten_into(row, f"{path}/{key}" if path else key, inner)
        case list():
            for position, inner in enumerate(cast("list[Any]", value)):
                _flatten_into(row, f"{path}/{position}", inner)
        case None:
            row[path] = ""
        case bool():
            row[path] = "true" if value else "false"
        case _:
            row[path] = str(value)
