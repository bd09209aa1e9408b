"""Datasets: rows are appended durably and read in ranges, without loading a dataset into memory."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sqlite3
import struct
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, cast

from outlast.deploy.local.sandbox.database import Database
from outlast.deploy.local.sandbox.errors import ApiError
from outlast.deploy.local.sandbox.formats import line_of, now, parse

logger = logging.getLogger("sandbox")
INDEX_STEP = 256
_ENTRY = struct.Struct("<Q")
NO_LIMIT = 999_999_999_999
_SMALL_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    """Range of a dataset's rows, and the total number of rows."""

    dataset_id: str
    total: int
    offset: int
    limit: int
    desc: bool

    @property
    def count(self) -> int:
        """Number of rows in the range."""
        return max(0, min(self.limit, self.total - self.offset))


class Datasets:
    """Content of all datasets."""

    def __init__(self, database: Database, files: DatasetFiles) -> None:
        self._database = database
        self._files = files
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def push(self, dataset_id: str, body: bytes) -> int:
        """Append a JSON object or an array of objects; return how many were kept.

        Rows beyond the dataset's `max_items` are dropped. Raises `ApiError` 400 for any other body and keeps nothing.
        """
        if len(body) > _SMALL_BYTES:
            lines, fields = await asyncio.to_thread(_parse_items, body)
        else:
            lines, fields = _parse_items(body)
        async with self._locks[dataset_id]:
            row = self._database.row("SELECT * FROM storages WHERE id = ?", (dataset_id,))
            if row is None:
                raise ApiError(404, "record-not-found", "Dataset was not found")
            if row["max_items"] is not None:
                lines = lines[: max(0, row["max_items"] - row["item_count"])]
            if lines:
                await self._append(row, lines, fields)
        return len(lines)

    async def _append(self, row: sqlite3.Row, lines: list[bytes], fields: list[str]) -> None:
        arguments = (row["id"], row["item_count"], row["size_bytes"], lines)
        if sum(map(len, lines)) > _SMALL_BYTES:
            size_bytes = await asyncio.to_thread(self._files.append, *arguments)
        else:
            size_bytes = self._files.append(*arguments)
        known: list[str] = parse(row["fields"].encode())
        all_fields = list(dict.fromkeys([*known, *fields]))
        moment = now()
        self._database.run(
            "UPDATE storages SET item_count = ?, size_bytes = ?, fields = ?, modified_at = ?, accessed_at = ?"
            " WHERE id = ?",
            (row["item_count"] + len(lines), size_bytes, line_of(all_fields).decode(), moment, moment, row["id"]),
        )

    def limit(self, dataset_id: str, max_items: int) -> None:
        """Set the maximum number of rows, for rows that are pushed from now on."""
        self._database.run("UPDATE storages SET max_items = ? WHERE id = ?", (max_items, dataset_id))

    def item_count(self, dataset_id: str) -> int:
        """Return the number of rows."""
        return self._database.number("SELECT item_count FROM storages WHERE id = ?", (dataset_id,))

    def blocks(self, part: Part) -> Iterator[list[bytes]]:
        """Return the rows of a part as stored, in blocks. Blocking."""
        if part.desc:
            return self._files.read_backwards(part.dataset_id, part.total - 1 - part.offset, part.count, part.total)
        return self._files.read(part.dataset_id, part.offset, part.count, part.total)

    def remove(self, dataset_id: str) -> None:
        """Delete the rows."""
        self._files.remove(dataset_id)
        self._locks.pop(dataset_id, None)


async def in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the pieces, each made in a thread so that the event loop is not blocked."""
    while (piece := await asyncio.to_thread(next, pieces, None)) is not None:
        yield piece


def _parse_items(body: bytes) -> tuple[list[bytes], list[str]]:
    try:
        value: object = parse(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "invalid-input", f"The items are not valid JSON: {error}") from error
    items = cast("list[object]", value) if isinstance(value, list) else [value]
    lines: list[bytes] = []
    fields: dict[str, None] = {}
    for position, item in enumerate(items):
        if not isinstance(item, dict):
            raise ApiError(400, "invalid-input", f"Item {position} must be a JSON object")
        row = cast("dict[str, Any]", item)
        fields.update(dict.fromkeys(row))
        lines.append(line_of(row))
    return lines, list(fields)


class DatasetFiles:
    """Files of all datasets. Access blocks: callers use a thread for large reads and writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def append(self, dataset_id: str, item_count: int, size_bytes: int, lines: Sequence[bytes]) -> int:
        """Write lines (with their line ends) after the valid part and return the new size in bytes."""
        folder = self._folder(dataset_id)
        folder.mkdir(parents=True, exist_ok=True)
        offsets: list[int] = []
        position = size_bytes
        for row, line in enumerate(lines, item_count):
            if row % INDEX_STEP == 0:
                offsets.append(position)
            position += len(line)
        if offsets:
            index_bytes = -(-item_count // INDEX_STEP) * _ENTRY.size
            _write_at(folder / "index.bin", index_bytes, b"".join(_ENTRY.pack(offset) for offset in offsets))
        _write_at(folder / "items.jsonl", size_bytes, b"".join(lines))
        return position

    def read(
        self, dataset_id: str, first: int, count: int, total: int, block_rows: int = 1024
    ) -> Iterator[list[bytes]]:
        """Yield rows from `first` on, in blocks. `total` is the number of valid rows."""
        count = min(count, total - first)
        if count <= 0:
            return
        path = self._folder(dataset_id) / "items.jsonl"
        if not path.exists():
            logger.error("%s is missing: its %d rows are lost", path, total)
            return
        with path.open("rb") as items:
            try:
                items.seek(self._offset(dataset_id, first // INDEX_STEP))
                skipped = first % INDEX_STEP
            except (struct.error, FileNotFoundError):
                items.seek(0)  # The index is damaged: count the rows instead.
                skipped = first
            for _ in range(skipped):
                items.readline()
            while count > 0:
                block = _read_block(items, min(block_rows, count))
                if not block:
                    logger.error("%s ends %d rows before the number that the database has", path, count)
                    return
                count -= len(block)
                yield block

    def read_backwards(self, dataset_id: str, first: int, count: int, total: int) -> Iterator[list[bytes]]:
        """Yield rows from `first` backwards, in blocks."""
        last = max(first - count, -1)
        row = first
        while row > last:
            start = max(last + 1, row - row % INDEX_STEP)
            block = [line for part in self.read(dataset_id, start, row - start + 1, total) for line in part]
            yield block[::-1]
            row = start - 1

    def remove(self, dataset_id: str) -> None:
        """Delete all rows."""
        shutil.rmtree(self._folder(dataset_id), ignore_errors=True)

    def _offset(self, dataset_id: str, entry: int) -> int:
        with (self._folder(dataset_id) / "index.bin").open("rb") as index:
            index.seek(entry * _ENTRY.size)
            (offset,) = _ENTRY.unpack(index.read(_ENTRY.size))
        return int(offset)

    def _folder(self, dataset_id: str) -> Path:
        return self._directory / dataset_id[:2] / dataset_id


def _read_block(items: BinaryIO, rows: int, limit_bytes: int = 1 << 20) -> list[bytes]:
    block: list[bytes] = []
    size = 0
    while len(block) < rows and size < limit_bytes:
        line = items.readline()
        if not line.endswith(b"\n"):
            break  # the file, or its last row, is cut
        size += len(line)
        block.append(line.rstrip(b"\n"))
    return block


def _write_at(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b" if path.exists() else "w+b") as file:
        file.truncate(position)
        file.seek(position)
        file.write(data)
