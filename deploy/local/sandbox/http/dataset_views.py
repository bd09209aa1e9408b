"""Rows of a dataset in the form that a request asks for: JSON, JSON lines or CSV, with fields picked or reshaped."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, cast

from starlette.requests import Request

from outlast.deploy.local.sandbox.formats import JsonObject, line_of, parse
from outlast.deploy.local.sandbox.http.query import flag, names

_MISSING: Any = object()
Blocks = Iterable[list[bytes]]
STEPS = ("fields", "omit", "unwind", "flatten")
CONTENT_TYPES = {
    "json": "application/json; charset=utf-8",
    "jsonl": "application/x-ndjson; charset=utf-8",
    "csv": "text/csv; charset=utf-8",
}


@dataclass(frozen=True, slots=True)
class View:
    """Transformations of one request, applied in the order that the platform documents."""

    fields: tuple[str, ...] = ()
    omit: tuple[str, ...] = ()
    unwind: tuple[str, ...] = ()
    flatten: tuple[str, ...] = ()
    skip_hidden: bool = False
    skip_empty: bool = False

    @staticmethod
    def of(request: Request) -> View:
        """Return the view that the query describes. `clean` means `skipHidden` and `skipEmpty`."""
        clean = flag(request, "clean")
        fields, omit, unwind, flatten = (tuple(names(request, step)) for step in STEPS)
        skip_hidden, skip_empty = clean or flag(request, "skipHidden"), clean or flag(request, "skipEmpty")
        return View(fields, omit, unwind, flatten, skip_hidden, skip_empty)

    def lines(self, block: list[bytes]) -> Iterator[bytes]:
        """Yield stored lines as the response shows them. A line that needs no change is not parsed."""
        reshapes = bool(self.fields or self.omit or self.unwind or self.flatten)
        for line in block:
            if reshapes or (self.skip_hidden and b'"#' in line):
                yield from (line_of(item).rstrip(b"\n") for item in self.items(line))
            elif not (self.skip_empty and line == b"{}"):
                yield line

    def items(self, line: bytes) -> Iterator[JsonObject]:
        """Yield the items of one stored line."""
        items: list[JsonObject] = [parse(line)]
        for field in self.unwind:
            items = [unwound for item in items for unwound in _unwind(item, field)]
        for original in items:
            item = original
            if self.skip_hidden:
                item = {key: value for key, value in item.items() if not key.startswith("#")}
            for field in self.flatten:
                item = _flatten(item, field)
            if self.fields:
                item = {field: _pick(item, field) for field in self.fields if _pick(item, field) is not _MISSING}
            if self.omit:
                item = _omit(item, self.omit)
            if item or not self.skip_empty:
                yield item


def json_pieces(blocks: Blocks, view: View) -> Iterator[bytes]:
    """Yield one JSON array with one row per line."""
    opening = b"["
    for block in blocks:
        text = b",\n".join(view.lines(block))
        if text:
            yield opening + text
            opening = b",\n"
    yield b"[]" if opening == b"[" else b"]"


def jsonl_pieces(blocks: Blocks, view: View) -> Iterator[bytes]:
    """Yield one row per line."""
    for block in blocks:
        text = b"\n".join(view.lines(block))
        if text:
            yield text + b"\n"


def csv_pieces(
    blocks: Blocks, view: View, columns: list[str], *, delimiter: str, bom: bool, header: bool
) -> Iterator[bytes]:
    """Yield a header and one line per row. Nested values have columns such as `a/b` and `list/0`."""
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
    """Return all columns that the rows need, in the order of their first use."""
    columns: dict[str, None] = {}
    for block in blocks:
        for line in view.lines(block):
            columns.update(dict.fromkeys(flat_row(parse(line))))
    return list(columns)


def flat_row(item: object) -> dict[str, str]:
    """Return a row of nested values as a flat row of strings."""
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


def _pick(item: JsonObject, field: str) -> Any:
    """Return a field by name or by a dotted path into nested objects."""
    if field in item:
        return item[field]
    value: Any = item
    for part in field.split("."):
        if not isinstance(value, dict) or part not in value:
            return _MISSING
        value = cast("JsonObject", value)[part]
    return value


def _omit(item: JsonObject, fields: tuple[str, ...]) -> JsonObject:
    result = {key: value for key, value in item.items() if key not in fields}
    for field in fields:
        head, _, rest = field.partition(".")
        if rest and isinstance(result.get(head), dict):
            result[head] = _omit(cast("JsonObject", result[head]), (rest,))
    return result


def _unwind(item: JsonObject, field: str) -> list[JsonObject]:
    value = item.get(field)
    rest = {key: content for key, content in item.items() if key != field}
    if isinstance(value, dict):
        return [{**rest, **cast("JsonObject", value)}]
    if not isinstance(value, list):
        return [item]
    return [
        {**rest, **cast("JsonObject", element)} if isinstance(element, dict) else {**rest, field: element}
        for element in cast("list[Any]", value)
    ]


def _flatten(item: JsonObject, field: str) -> JsonObject:
    value = item.get(field)
    if not isinstance(value, dict):
        return item
    inner = {f"{field}.{key}": content for key, content in cast("JsonObject", value).items()}
    return {key: content for key, content in item.items() if key != field} | inner
