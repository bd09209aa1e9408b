"""Summaries of outputs: a short text from which a model can decide which part to restore. A summary depends on the
stored content alone: the same output always has the same summary.
"""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import cast

from pydantic import JsonValue

from outlast.activities.json_values import loads, value_of
from outlast.activities.media import decoded
from outlast.activities.outputs.contracts import MAX_SUMMARY_CHARS, FieldSummary, OutputKind
from outlast.activities.outputs.reader import OutputReader

_SAMPLES = 20
_ROWS_PER_SAMPLE = 10
_SAMPLE_BYTES = 1024 * 1024
"""One sample of rows is read up to this size; larger rows are left out."""
_SHOWN_FIELDS = 40
_FIELD_NAME_CHARS = 80
_SHOWN_TEXT = 300
_SHOWN_HEADINGS = 15
_HEAD_BYTES = 256 * 1024
_PARSED_BYTES = 8 * 1024 * 1024
"""A JSON value is parsed up to this size."""
_SHAPE_DEPTH = 3
_SHAPE_KEYS = 20

_ROWS_HINT = (
    "Restore rows by offset and limit, only some fields, the rows that match a filter (JMESPath), or a query per row."
)
_JSON_HINT = "Restore the parts you need with a JMESPath query, or a range of its text by offset and limit in bytes."
_TEXT_HINT = "Restore a range of it by offset and limit in bytes."
_BINARY_HINT = "Fetch it as a file; models gain nothing from its bytes."


@dataclass(frozen=True)
class Description:
    """The description of an output. `kind` is text when the content type is JSON and the content is not."""

    kind: OutputKind
    summary: str
    count: int | None = None
    fields: tuple[FieldSummary, ...] = ()


async def summarise(reader: OutputReader) -> Description:
    """Describe an output by its kind."""
    manifest = reader.manifest
    if manifest.kind == "rows":
        return await asyncio.to_thread(_of_rows, await _sample(reader), manifest.rows, manifest.raw_size)
    if manifest.kind == "binary":
        return Description(
            "binary", f"Binary, {_named(manifest.content_type)}, {_size(manifest.raw_size)}. {_BINARY_HINT}"
        )
    is_json = manifest.kind == "json"
    head = await _head(reader, _PARSED_BYTES if is_json and manifest.raw_size <= _PARSED_BYTES else _HEAD_BYTES)
    describe = _of_json if is_json else _of_text
    return await asyncio.to_thread(describe, head, manifest.content_type, manifest.raw_size)


async def _head(reader: OutputReader, size: int) -> bytes:
    return b"".join([piece async for piece in reader.bytes(0, size)])


async def _sample(reader: OutputReader) -> list[bytes]:
    """Rows from evenly spread positions of the output."""
    total = reader.manifest.rows
    if total <= _SAMPLES * _ROWS_PER_SAMPLE:
        return await _rows_at(reader, 0, total, _SAMPLES * _SAMPLE_BYTES)
    return [
        row
        for number in range(_SAMPLES)
        for row in await _rows_at(reader, number * total // _SAMPLES, _ROWS_PER_SAMPLE, _SAMPLE_BYTES)
    ]


async def _rows_at(reader: OutputReader, offset: int, limit: int, max_bytes: int) -> list[bytes]:
    rows: list[bytes] = []
    size = 0
    async for row in reader.rows(offset, limit):
        size += len(row)
        if size > max_bytes:
            break
        if len(row) <= _SAMPLE_BYTES:
            rows.append(row)
    return rows


def _of_rows(sample: list[bytes], total: int, size: int) -> Description:
    fields = tuple(_fields([value_of(row) for row in sample]))
    beginning = f"{_counted(total, 'row')} of JSON, {_size(size)}."
    if not fields:
        return Description("rows", f"{beginning} {_ROWS_HINT}", total)
    beginning += f" Fields, with types and the share of {_counted(len(sample), 'sampled row')} that have a value: "
    shown = [f"{field.name} {'|'.join(field.types)} {field.fill_rate:.0%}" for field in fields]
    room = MAX_SUMMARY_CHARS - len(beginning) - len(_ROWS_HINT) - len("; and 99 more. ")
    return Description("rows", f"{beginning}{_list(shown, room)}. {_ROWS_HINT}", total, fields)


def _fields(rows: list[JsonValue]) -> Iterable[FieldSummary]:
    """Top-level fields with their types and the share of sampled rows that have a value."""
    types: dict[str, set[str]] = {}
    filled: dict[str, int] = {}
    for row in rows:
        for name, value in row.items() if isinstance(row, dict) else ():
            types.setdefault(name, set()).add(_type_name(value))
            filled[name] = filled.get(name, 0) + (value is not None)
    for name in list(types)[:_SHOWN_FIELDS]:
        if len(name) <= _FIELD_NAME_CHARS:
            rate = round(filled[name] / len(rows), 2)
            yield FieldSummary(name=name, types=tuple(sorted(types[name])), fill_rate=rate)


def _of_json(head: bytes, content_type: str, size: int) -> Description:
    if len(head) < size:
        beginning = f"JSON, {_size(size)}. {_JSON_HINT} It begins: "
        return Description("json", beginning + _beginning(head, content_type))
    try:
        value: JsonValue = loads(head)
    except ValueError:
        return _of_text(head, content_type, size)
    if isinstance(value, list):
        what, count = f"A JSON list of {_counted(len(value), 'element')}", len(value)
    else:
        what, count = "A JSON object" if isinstance(value, dict) else f"JSON ({_type_name(value)})", None
    beginning = f"{what}, {_size(size)}. {_JSON_HINT}"
    shape = _shape(value, _SHAPE_DEPTH)
    room = MAX_SUMMARY_CHARS - len(beginning) - len(" Shape: …")
    return Description("json", f"{beginning} Shape: {_cut(shape, room)}", count)


def _of_text(head: bytes, content_type: str, size: int) -> Description:
    text, _ = decoded(head, content_type, is_last=True)
    lines = text.count("\n") + (not text.endswith("\n") and bool(text))
    how_many = f"over {lines:,} lines" if len(head) < size else _counted(lines, "line")
    if "html" in content_type.lower():
        outline = outline_of(text[:_HEAD_BYTES])
        title = f" Title: {outline.title}." if outline.title else ""
        beginning = f"HTML, {_size(size)}, {how_many}.{title} {_TEXT_HINT}"
        room = MAX_SUMMARY_CHARS - len(beginning) - len(" Headings: ; and 99 more.")
        headings = _list(outline.headings[:_SHOWN_HEADINGS], room)
        return Description("text", beginning + (f" Headings: {headings}." if headings else ""))
    return Description(
        "text",
        f"Text, {_named(content_type)}, {_size(size)}, {how_many}. {_TEXT_HINT} It begins: "
        + _beginning(head, content_type),
    )


def _beginning(head: bytes, content_type: str) -> str:
    text, _ = decoded(head[: 8 * _SHOWN_TEXT], content_type, is_last=False)
    return _cut(" ".join(text.split()), _SHOWN_TEXT)


def _shape(value: JsonValue, depth: int) -> str:
    if isinstance(value, dict):
        if depth == 0:
            return f"object of {len(value)}"
        keys = [f"{name[:_FIELD_NAME_CHARS]}: {_shape(part, depth - 1)}" for name, part in value.items()]
        more = [f"{len(keys) - _SHAPE_KEYS} more"] if len(keys) > _SHAPE_KEYS else []
        return "{" + ", ".join(keys[:_SHAPE_KEYS] + more) + "}"
    if isinstance(value, list):
        inner = f" of {_shape(value[0], depth - 1)}" if value and depth else ""
        return f"[{len(value)}{inner}]"
    return _type_name(value)


def _list(entries: list[str], room: int) -> str:
    """As many entries as fit into `room` characters."""
    shown: list[str] = []
    for entry in entries:
        room -= len(entry) + len("; ")
        if room < 0:
            break
        shown.append(entry)
    left_out = len(entries) - len(shown)
    return "; ".join([*shown, f"and {left_out} more"] if left_out and shown else shown)


def _cut(text: str, chars: int) -> str:
    return text if len(text) <= chars else text[:chars] + "…"


def _named(content_type: str) -> str:
    return _cut(content_type, 100)


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _size(size: int) -> str:
    """Return the size in units of powers of 1,000."""
    amount = float(size)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"


def _type_name(value: JsonValue) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return "null" if value is None else names[cast("type[bool]", type(value))]


_HEADINGS = ("h1", "h2", "h3")
_HEADING_CHARS = 80
_TITLE_CHARS = 200


class Outline(HTMLParser):
    """A parser that collects the title and the headings of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.headings: list[str] = []
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 (HTMLParser's)
        """Start of a title or heading."""
        if tag == "title" or tag in _HEADINGS:
            self._inside = tag
            if tag != "title":
                self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        """End of the title or heading."""
        if tag == self._inside:
            self._inside = None

    def handle_data(self, data: str) -> None:
        """Collect the text of the title or heading, in one line."""
        words = " ".join(data.split())
        if not words:
            return
        if self._inside == "title":
            self.title = f"{self.title} {words}".strip()[:_TITLE_CHARS]
        elif self._inside:
            self.headings[-1] = f"{self.headings[-1]} {words}".strip()[:_HEADING_CHARS]


def outline_of(page: str) -> Outline:
    """Return the outline of a page, or of the beginning of one."""
    outline = Outline()
    outline.feed(page)
    outline.headings = [heading for heading in outline.headings if heading]
    return outline
