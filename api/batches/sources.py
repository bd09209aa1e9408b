"""Where items come from: a list in the request, JSON lines, CSV, a stored output, a dataset. All are streams."""

import asyncio
import csv
import io
from collections.abc import AsyncGenerator, AsyncIterable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import orjson
import zstandard
from pydantic import JsonValue

from outlast.activities.outputs.format.nesting import is_too_deep
from outlast.activities.outputs.store.dataset_source import rows_from
from outlast.activities.outputs.store.reader import OutputReader
from outlast.activities.platform import apify
from outlast.api.contracts.batches import BatchItem
from outlast.api.errors import BatchTooLarge

MAX_LINE_BYTES = 128 * 1024
"""A longer line holds no item: its arguments may have half of that, and fields that are not used."""
_ROWS_AT_ONCE = 100
"""Rows that are parsed before other requests get their turn."""
Media = Literal["jsonl", "csv"]


@dataclass(frozen=True)
class SourceRow:
    """One row. `problem` says why it cannot be read; then there is no value."""

    number: int
    value: JsonValue = None
    problem: str | None = None


Rows = AsyncGenerator[SourceRow]


class UploadedBody:
    """A request's body, kept compressed until it is read line by line."""

    def __init__(self, *, max_bytes: int) -> None:
        """Take `max_bytes` at most."""
        self._max_bytes = max_bytes
        self._compressor = zstandard.ZstdCompressor(level=1).compressobj()
        self._pieces: list[bytes] = []
        self._size = 0

    async def receive(self, chunks: AsyncIterable[bytes]) -> None:
        """Take the whole body. Raises `BatchTooLarge`."""
        async for chunk in chunks:
            self._size += len(chunk)
            if self._size > self._max_bytes:
                raise BatchTooLarge(
                    f"The items are larger than {self._max_bytes} bytes (`OUTLAST_MAX_BATCH_BYTES`). Nothing was "
                    "started: make several batches of them, or store them in a dataset and pass its id as `rows`."
                )
            self._pieces.append(self._compressor.compress(chunk))
        self._pieces.append(self._compressor.flush())

    def opened(self) -> io.BufferedReader:
        """Its content."""
        packed = io.BytesIO(b"".join(self._pieces))
        return io.BufferedReader(zstandard.ZstdDecompressor().stream_reader(packed))


async def inline_rows(items: Iterable[BatchItem]) -> Rows:
    """Items of a request, counted from 1."""
    for number, item in enumerate(items, start=1):
        yield SourceRow(number, {"key": item.key, "arguments": item.arguments})
        await _give_way(number)


async def uploaded_rows(body: UploadedBody, media: Media, *, delimiter: str) -> Rows:
    """Rows of an uploaded file, by the number of their line."""
    with body.opened() as content:
        rows = _json_lines(content) if media == "jsonl" else _csv_rows(content, delimiter)
        for count, row in enumerate(rows):
            yield row
            await _give_way(count)


async def output_rows(reader: OutputReader, *, offset: int, limit: int | None) -> Rows:
    """Rows of a stored output, counted from 1."""
    number = offset
    async for batch in reader.row_batches(offset, limit):
        for row in batch:
            number += 1
            yield _parsed(number, row)
            await _give_way(number)


async def dataset_rows(client: "apify.ApifyClientAsync", dataset_id: str, *, offset: int, limit: int | None) -> Rows:
    """Rows of a dataset, counted from 1. Raises what the platform's client raises."""
    number = offset
    async for batch in rows_from(client, dataset_id, offset):
        for line in batch.lines.split(b"\n")[:-1]:
            if limit is not None and number - offset >= limit:
                return
            number += 1
            yield _parsed(number, line)
            await _give_way(number)


async def _give_way(count: int) -> None:
    if count % _ROWS_AT_ONCE == 0:
        await asyncio.sleep(0)


def _json_lines(content: io.BufferedReader) -> Iterator[SourceRow]:
    number = 0
    while line := content.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            yield SourceRow(number, problem=f"It is longer than {MAX_LINE_BYTES} bytes.")
            while line and not line.endswith(b"\n"):
                line = content.readline(MAX_LINE_BYTES + 1)
        elif line.strip():
            yield _parsed(number, line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line)


def _parsed(number: int, line: bytes) -> SourceRow:
    if len(line) > MAX_LINE_BYTES + 1:
        return SourceRow(number, problem=f"It is longer than {MAX_LINE_BYTES} bytes.")
    try:
        value: JsonValue = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        return SourceRow(number, problem=f"It is no JSON: {error.msg}, at character {error.colno}.")
    if is_too_deep(value):
        return SourceRow(number, problem="It is nested too deeply.")
    return SourceRow(number, value)


def _csv_rows(content: io.BufferedReader, delimiter: str) -> Iterator[SourceRow]:
    """RFC 4180, with a line of names first. Values are texts."""
    text = io.TextIOWrapper(content, encoding="utf-8-sig", newline="")
    reader = csv.reader(text, delimiter=delimiter, strict=True)
    names: list[str] | None = None
    while True:
        try:
            values = next(reader, None)
        except csv.Error as error:
            yield SourceRow(max(1, reader.line_num), problem=f"It is no CSV: {error}.")
            return
        except UnicodeDecodeError:
            yield SourceRow(reader.line_num + 1, problem="It is no text in UTF-8.")
            return
        if values is None:
            return
        number = reader.line_num
        if not values:
            continue
        if names is None:
            names = values
            if len(set(names)) != len(names) or "" in names:
                yield SourceRow(number, problem="A name of a column is empty or there twice.")
                return
        elif len(values) != len(names):
            yield SourceRow(number, problem=f"It has {len(values)} values, and the first line {len(names)} names.")
        else:
            yield SourceRow(number, dict(zip(names, values, strict=True)))
