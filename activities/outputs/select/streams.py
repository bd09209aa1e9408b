"""Streams selected rows of any number, for clients that read without a size limit."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Any

from outlast.activities.json_values import text_of
from outlast.activities.outputs.format.errors import OutputError
from outlast.activities.outputs.select.jmespath_client import MAX_JSON_BYTES, expressions
from outlast.activities.outputs.select.jmespath_process import Query
from outlast.activities.outputs.store.reader import OutputReader
from outlast.activities.storages.rows import selected

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
    """At most `limit` rows from `offset` on for which `where` is true, or the result of `query` for each of them.

    For a JSON value, the result of `query`. Lines of JSON, in pieces. Raises `OutputError` (bad_selection).
    """
    if reader.manifest.kind == "json" and query and not where and not fields:
        yield await _query_value(reader, query)
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
    """A line for each of at most `most` matches: the row, its fields, or the query's result."""
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


async def _query_value(reader: OutputReader, query: str) -> bytes:
    if reader.manifest.raw_size > MAX_JSON_BYTES:
        raise OutputError(
            "bad_selection", f"A query needs a JSON value of at most {MAX_JSON_BYTES // 2**20} MB.", "Read a range."
        )
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
            "Ask for a range of its bytes, or of a JSON value for a query.",
        )
