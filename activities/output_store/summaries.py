"""What an output is, in about a thousand tokens: enough for a model to decide which part of it to restore.

Deterministic: it depends on the stored content alone, so the same output has the same summary, whoever computes it.
"""

import json
from html.parser import HTMLParser
from typing import cast

import orjson
from pydantic import JsonValue

from activities.output_store.reader import OutputReader

JsonObject = dict[str, JsonValue]

MAX_SUMMARY_CHARS = 3_600
"""About a thousand tokens of JSON."""
_SAMPLED_ROWS = 200
_SPREAD_SAMPLES = 20
_SHOWN_ROWS = 3
_SHOWN_FIELDS = 40
_SHOWN_TEXT = 800
_HEAD_BYTES = 256 * 1024


async def summarise(reader: OutputReader) -> JsonObject:
    """The summary of an output, by its kind."""
    manifest = reader.manifest
    base: JsonObject = {
        "kind": manifest.kind,
        "contentType": manifest.content_type,
        "sizeBytes": manifest.raw_size,
    }
    if manifest.kind == "rows":
        return _bounded({**base, **await _of_rows(reader)})
    if manifest.kind == "binary":
        return {**base, "hint": "Binary: read it as a file with the REST API or the command line."}
    head = b"".join([piece async for piece in reader.bytes(0, _HEAD_BYTES)])
    if manifest.kind == "json":
        return _bounded({**base, **_of_json(head, whole=manifest.raw_size <= _HEAD_BYTES)})
    return _bounded({**base, **_of_text(head.decode(errors="replace"), manifest.content_type, manifest.raw_size)})


async def _of_rows(reader: OutputReader) -> JsonObject:
    sampled = [orjson.loads(row) async for row in reader.rows(0, _SAMPLED_ROWS)]
    total = reader.manifest.rows
    step = max(1, (total - _SAMPLED_ROWS) // _SPREAD_SAMPLES)
    for offset in range(_SAMPLED_ROWS, total, step):
        sampled += [orjson.loads(row) async for row in reader.rows(offset, 1)]
    return {
        "rows": total,
        "sampledRows": len(sampled),
        "fields": _fields(sampled),
        "firstRows": [_shortened(row) for row in sampled[:_SHOWN_ROWS]],
        "hint": "Restore rows by offset and limit, only some fields, or rows that match a filter.",
    }


def _fields(rows: list[JsonValue]) -> JsonValue:
    """Top-level fields with their types and the share of sampled rows that have them."""
    types: dict[str, dict[str, None]] = {}
    filled: dict[str, int] = {}
    objects = [cast(JsonObject, row) for row in rows if isinstance(row, dict)]
    for row in objects:
        for name, value in row.items():
            types.setdefault(name, {})[_type_name(value)] = None
            filled[name] = filled.get(name, 0) + (value is not None)
    return {
        name: f"{'|'.join(found)} {filled[name] / len(objects):.0%}"
        for name, found in list(types.items())[:_SHOWN_FIELDS]
    }


def _of_json(head: bytes, *, whole: bool) -> JsonObject:
    if not whole:
        text = head[:_SHOWN_TEXT].decode(errors="replace")
        return {"beginning": text, "hint": "Restore the parts you need with a JMESPath expression."}
    value: JsonValue = orjson.loads(head)
    hint = "Restore it whole, or the parts you need with a JMESPath expression."
    return {"shape": _shape(value, depth=3), "hint": hint}


def _of_text(head: str, content_type: str, size: int) -> JsonObject:
    hint = "Restore a range of the text by offset and limit."
    if "html" in content_type:
        outline = _Outline()
        outline.feed(head)
        return {"title": outline.title[:200], "headings": cast(JsonValue, outline.headings[:20]), "hint": hint}
    lines = head.count("\n") + 1
    return {"beginning": head[:_SHOWN_TEXT], "lines": lines if size <= _HEAD_BYTES else f"over {lines}", "hint": hint}


def _shape(value: JsonValue, *, depth: int) -> JsonValue:
    if isinstance(value, dict):
        if depth == 0:
            return f"object with {len(value)} keys"
        return {key: _shape(part, depth=depth - 1) for key, part in list(value.items())[:_SHOWN_FIELDS]}
    if isinstance(value, list):
        inner = _shape(value[0], depth=depth - 1) if value and depth else None
        return [f"{len(value)} entries", inner] if inner is not None else f"{len(value)} entries"
    return _type_name(value)


def _shortened(value: JsonValue, *, chars: int = 120, entries: int = 12) -> JsonValue:
    if isinstance(value, str) and len(value) > chars:
        return value[:chars] + f"… ({len(value)} characters)"
    if isinstance(value, list):
        return [_shortened(part, chars=chars // 2, entries=3) for part in value[:3]]
    if isinstance(value, dict):
        return {key: _shortened(part, chars=chars, entries=4) for key, part in list(value.items())[:entries]}
    return value


def _bounded(summary: JsonObject) -> JsonObject:
    """Leave out what is worth least until the budget is kept."""
    for name in ("firstRows", "beginning", "headings", "shape", "fields"):
        while len(json.dumps(summary, ensure_ascii=False)) > MAX_SUMMARY_CHARS and summary.get(name):
            summary = {**summary, name: _half(summary[name])}
    return summary


def _half(value: JsonValue) -> JsonValue:
    if isinstance(value, str | list):
        return value[: len(value) // 2]
    if isinstance(value, dict):
        return dict(list(value.items())[: len(value) // 2])
    return None


def _type_name(value: JsonValue) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", list: "array", dict: "object"}
    return "null" if value is None else names[type(value)]


class _Outline(HTMLParser):
    """Title and headings of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.title = ""
        self.headings: list[str] = []
        self._inside: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in ("title", "h1", "h2", "h3"):
            self._inside = tag
            if tag != "title":
                self.headings.append("")

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self.title += data.strip()
        elif self._inside:
            self.headings[-1] = (self.headings[-1] + " " + data.strip()).strip()[:100]
