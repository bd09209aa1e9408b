"""Reading a part of an output as an answer: rows, fields, matches of a filter, a range of text, each within a limit."""

import base64

from outlast.activities.outputs.contracts import RestoredOutput, RestoreOutputInput
from outlast.activities.outputs.format.content_types import decoded
from outlast.activities.outputs.format.errors import OutputRefused
from outlast.activities.outputs.format.json_values import value_of
from outlast.activities.outputs.select.jmespath_client import MAX_JSON_BYTES, expressions
from outlast.activities.outputs.select.jmespath_process import Query
from outlast.activities.outputs.select.rows import restored, select_rows
from outlast.activities.outputs.store.reader import OutputReader

_LONGEST_LETTER = 4
"""Bytes of the longest character: less would not go on."""


async def select(reader: OutputReader, order: RestoreOutputInput) -> RestoredOutput:
    """Carry `order` out. Raises `OutputRefused`: bad_selection, or damaged."""
    kind = reader.manifest.kind
    if kind == "rows":
        return await select_rows(reader, order)
    if order.filter or order.fields:
        raise OutputRefused(
            "bad_selection", f"Filter and fields need rows; this output is {kind}.", "Use a query, or a range."
        )
    if order.query:
        return await _of_value(reader, order)
    if kind == "json" and order.offset == 0 and order.limit is None and reader.manifest.raw_size <= order.max_bytes:
        whole = await _bytes(reader, 0, order.max_bytes)
        return restored(reader.manifest, order, value=value_of(whole))
    return await (_blob if kind == "binary" else _text)(reader, order)


async def _text(reader: OutputReader, order: RestoreOutputInput) -> RestoredOutput:
    """A range that ends with a whole character."""
    size = max(min(order.limit or order.max_bytes, order.max_bytes), _LONGEST_LETTER)
    raw = await _bytes(reader, order.offset, size)
    end = order.offset + len(raw)
    is_last = end >= reader.manifest.raw_size
    text, taken = decoded(raw, reader.manifest.content_type, is_last=is_last)
    return restored(reader.manifest, order, text=text, next_offset=None if is_last else order.offset + taken)


async def _blob(reader: OutputReader, order: RestoreOutputInput) -> RestoredOutput:
    """A range whose Base64 fits."""
    most = max(1, order.max_bytes // 4 * 3)
    raw = await _bytes(reader, order.offset, min(order.limit or most, most))
    end = order.offset + len(raw)
    next_offset = end if end < reader.manifest.raw_size else None
    return restored(reader.manifest, order, blob_base64=base64.b64encode(raw).decode(), next_offset=next_offset)


async def _of_value(reader: OutputReader, order: RestoreOutputInput) -> RestoredOutput:
    """The query's result on the whole value; of a list, elements from `offset` on."""
    if reader.manifest.kind != "json" or reader.manifest.raw_size > MAX_JSON_BYTES:
        raise OutputRefused(
            "bad_selection",
            f"A query needs rows, or a JSON value of {MAX_JSON_BYTES // 2**20} MB at most.",
            "Restore a range of its text by offset and limit.",
        )
    whole = await _bytes(reader, 0, MAX_JSON_BYTES)
    query = Query(None, order.query, order.max_bytes, paging=order.offset, limit=order.limit)
    async with expressions(query) as evaluator:
        found = await evaluator.evaluate(whole)
    if "value" not in found:
        raise OutputRefused(
            "bad_selection",
            f"The query's result has {found['size']} bytes, over the limit of {order.max_bytes}.",
            "Ask for less of it, or raise the limit.",
        )
    return restored(
        reader.manifest,
        order,
        value=found["value"],
        next_offset=found.get("next"),
        oversized_row_bytes=found.get("size"),
    )


async def _bytes(reader: OutputReader, offset: int, size: int) -> bytes:
    return b"".join([piece async for piece in reader.bytes(offset, offset + size)])
