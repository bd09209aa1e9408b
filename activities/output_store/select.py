"""Reading a part of an output as an answer: rows, fields, matches of a filter, a range of text, each within a limit."""

import asyncio
import dataclasses
import sys
from collections.abc import AsyncIterator
from typing import cast

import orjson
from pydantic import JsonValue

from activities.output_models import RestoredOutput, RestoreInput
from activities.output_store.query import CPU_SECONDS, MAX_EXPRESSION_CHARS, Query
from activities.output_store.reader import OutputReader

_DEFAULT_ROWS = 100
_MAX_JSON_BYTES = 32 * 1024 * 1024
_WALL_SECONDS = 30


class BadSelection(Exception):
    """The order cannot be carried out as it is; the text says why."""


async def select(reader: OutputReader, order: RestoreInput) -> RestoredOutput:
    """Carry `order` out. Raises `BadSelection`, or `OutputDamaged` for stored bytes that were changed."""
    manifest = reader.manifest
    if manifest.kind == "binary":
        raise BadSelection("This output is binary; fetch it as a file with the REST API or the command line.")
    if order.filter or order.select:
        return await _evaluated(reader, order)
    return await _rows(reader, order) if manifest.kind == "rows" else await _text(reader, order)


async def _rows(reader: OutputReader, order: RestoreInput) -> RestoredOutput:
    items: list[JsonValue] = []
    size = 0
    async for row in reader.rows(order.offset, order.limit or _DEFAULT_ROWS):
        item = _with_fields(orjson.loads(row), order.fields)
        size += len(orjson.dumps(item)) + 1
        if size > order.max_bytes and items:
            break
        if size > order.max_bytes:
            raise BadSelection(f"Row {order.offset} alone exceeds {order.max_bytes} bytes; name the fields you need.")
        items.append(item)
    return _answer(reader, order, items=tuple(items), taken=len(items), total=reader.manifest.rows)


async def _text(reader: OutputReader, order: RestoreInput) -> RestoredOutput:
    size = min(order.limit or order.max_bytes, order.max_bytes)
    raw = b"".join([piece async for piece in reader.bytes(order.offset, order.offset + size)])
    at_end = order.offset + len(raw) >= reader.manifest.raw_size
    taken = len(raw) if at_end else _whole_characters(raw)
    text = raw[:taken].decode(errors="replace")
    return _answer(reader, order, text=text, taken=taken, total=reader.manifest.raw_size)


async def _evaluated(reader: OutputReader, order: RestoreInput) -> RestoredOutput:
    """JMESPath, in a process of its own (`activities.output_store.query`)."""
    for expression in (order.filter, order.select):
        if expression and len(expression) > MAX_EXPRESSION_CHARS:
            raise BadSelection(f"An expression may have {MAX_EXPRESSION_CHARS} characters at most.")
    query = Query(order.filter, order.select, order.limit or _DEFAULT_ROWS, order.max_bytes)
    lines = await _run(query, _documents(reader, order.offset))
    report = orjson.loads(lines.pop())
    items = tuple(_with_fields(orjson.loads(line), order.fields) for line in lines)
    is_rows = reader.manifest.kind == "rows"
    return _answer(
        reader,
        order,
        items=items,
        taken=report["scanned"],
        total=reader.manifest.rows if is_rows else 1,
        scanned=report["scanned"],
    )


async def _documents(reader: OutputReader, offset: int) -> AsyncIterator[bytes]:
    """What the expression is applied to: each row, or the whole value."""
    if reader.manifest.kind == "rows":
        async for row in reader.rows(offset):
            yield row + b"\n"
        return
    if reader.manifest.kind != "json" or reader.manifest.raw_size > _MAX_JSON_BYTES:
        raise BadSelection("Expressions need rows, or a JSON value of 32 MB at most. Restore a range of the text.")
    whole = b"".join([piece async for piece in reader.bytes()])
    yield orjson.dumps(orjson.loads(whole)) + b"\n"


async def _run(query: Query, documents: AsyncIterator[bytes]) -> list[bytes]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "activities.output_store.query",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": ":".join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
    )
    feeding = asyncio.create_task(_feed(process, query, documents))
    try:
        async with asyncio.timeout(_WALL_SECONDS):
            out, err = await asyncio.gather(_read(process.stdout), _read(process.stderr))
            code = await process.wait()
            await feeding
    except TimeoutError:
        raise BadSelection(f"The expression took longer than {_WALL_SECONDS} seconds; make it simpler.") from None
    finally:
        feeding.cancel()
        if process.returncode is None:
            process.kill()
    if code == 2:
        raise BadSelection(f"The expression is no JMESPath: {err.decode(errors='replace')[:300].strip()}")
    if code != 0:
        raise BadSelection(f"The expression needs more than {CPU_SECONDS} seconds or 1 GB; make it simpler.")
    return out.splitlines()


async def _feed(process: asyncio.subprocess.Process, query: Query, documents: AsyncIterator[bytes]) -> None:
    pipe = process.stdin
    assert pipe is not None
    try:
        pipe.write(orjson.dumps(dataclasses.asdict(query)) + b"\n")
        async for document in documents:
            pipe.write(document)
            await pipe.drain()
        pipe.close()
    except (BrokenPipeError, ConnectionResetError):
        return  # It has enough, or was ended; its exit code says which.


async def _read(stream: asyncio.StreamReader | None) -> bytes:
    return await stream.read() if stream is not None else b""


def _with_fields(item: JsonValue, fields: tuple[str, ...]) -> JsonValue:
    """Only `fields` of a row; dots lead into objects."""
    if not fields or not isinstance(item, dict):
        return item
    chosen: dict[str, JsonValue] = {}
    for field in fields:
        value: JsonValue = item.get(field)
        if field not in item:
            value = item
            for name in field.split("."):
                value = cast(dict[str, JsonValue], value).get(name) if isinstance(value, dict) else None
        if value is not None:
            chosen[field] = value
    return chosen


def _whole_characters(raw: bytes) -> int:
    """How many bytes of `raw` are whole UTF-8 characters."""
    for cut in range(min(4, len(raw)) + 1):
        end = len(raw) - cut
        if cut == 0 and raw[-1:] < b"\x80":
            return end
        if cut and raw[end] >= 0xC0:
            needed = 2 if raw[end] < 0xE0 else 3 if raw[end] < 0xF0 else 4
            return len(raw) if cut >= needed else end
    return len(raw)


def _answer(
    reader: OutputReader,
    order: RestoreInput,
    *,
    taken: int,
    total: int,
    items: tuple[JsonValue, ...] | None = None,
    text: str | None = None,
    scanned: int = 0,
) -> RestoredOutput:
    manifest = reader.manifest
    position = order.offset + taken
    return RestoredOutput(
        locator=manifest.locator,
        kind=manifest.kind,
        content_type=manifest.content_type,
        items=items,
        text=text,
        offset=order.offset,
        next_offset=position if position < total else None,
        total=total,
        scanned=scanned,
    )
