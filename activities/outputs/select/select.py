"""Selects a part of an output for an answer: rows, fields, matches of a filter, or a range of text."""

import base64

from outlast.activities.content_types import decoded
from outlast.activities.json_values import value_of
from outlast.activities.outputs.contracts import RestoredOutput, RestoreOutputInput
from outlast.activities.outputs.format.errors import OutputError
from outlast.activities.outputs.select.jmespath_client import MAX_JSON_BYTES, expressions
from outlast.activities.outputs.select.jmespath_process import Query
from outlast.activities.outputs.select.rows import restored, select_rows
from outlast.activities.outputs.store.reader import OutputReader

_LONGEST_CHARACTER = 4
"""Bytes of the longest character: a smaller part could contain none."""


async def select(reader: OutputReader, request: RestoreOutputInput) -> RestoredOutput:
    """The part that `request` selects. Raises `OutputError`: bad_selection or damaged."""
    kind = reader.manifest.kind
    if kind == "rows":
        return await select_rows(reader, request)
    if request.filter or request.fields:
        raise OutputError(
            "bad_selection", f"Filter and fields need rows; this output is {kind}.", "Use a query, or a range."
        )
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
    """A range that ends with a whole character."""
    size = max(min(request.limit or request.max_bytes, request.max_bytes), _LONGEST_CHARACTER)
    raw = await _read_range(reader, request.offset, size)
    end = request.offset + len(raw)
    is_last = end >= reader.manifest.raw_size
    text, taken = decoded(raw, reader.manifest.content_type, is_last=is_last)
    return restored(reader.manifest, request, text=text, next_offset=None if is_last else request.offset + taken)


async def _select_blob(reader: OutputReader, request: RestoreOutputInput) -> RestoredOutput:
    """A range whose Base64 fits."""
    most = max(1, request.max_bytes // 4 * 3)
    raw = await _read_range(reader, request.offset, min(request.limit or most, most))
    end = request.offset + len(raw)
    next_offset = end if end < reader.manifest.raw_size else None
    return restored(reader.manifest, request, blob_base64=base64.b64encode(raw).decode(), next_offset=next_offset)


async def _query_value(reader: OutputReader, request: RestoreOutputInput) -> RestoredOutput:
    """The query's result on the whole value; of a list, elements from `offset` on."""
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
            "Ask for less of it, or raise the limit.",
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
