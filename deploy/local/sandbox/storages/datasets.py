"""Datasets: rows are appended durably and read in ranges, never held in memory as a whole."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any, cast

from outlast.deploy.local.sandbox.database import Database
from outlast.deploy.local.sandbox.http.errors import ApiError
from outlast.deploy.local.sandbox.json_object import line_of, parse
from outlast.deploy.local.sandbox.storages.dataset_files import DatasetFiles
from outlast.deploy.local.sandbox.times_and_ids import now

NO_LIMIT = 999_999_999_999
_SMALL_BYTES = 128 * 1024


@dataclass(frozen=True, slots=True)
class Part:
    """A range of a dataset's rows, and the total number of rows."""

    dataset_id: str
    total: int
    offset: int
    limit: int
    desc: bool

    @property
    def count(self) -> int:
        """The number of rows in the range."""
        return max(0, min(self.limit, self.total - self.offset))


class Datasets:
    """The content of all datasets."""

    def __init__(self, database: Database, files: DatasetFiles) -> None:
        self._database = database
        self._files = files
        self._locks: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def push(self, dataset_id: str, body: bytes) -> int:
        """Appends a JSON object or an array of objects and returns how many were kept: rows beyond the dataset's
        `max_items` are dropped. For any other body raises `ApiError` 400 and keeps nothing.
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
        """Sets how many rows are kept at most, of those that are pushed from now on."""
        self._database.run("UPDATE storages SET max_items = ? WHERE id = ?", (max_items, dataset_id))

    def item_count(self, dataset_id: str) -> int:
        """The number of rows."""
        return self._database.number("SELECT item_count FROM storages WHERE id = ?", (dataset_id,))

    def blocks(self, part: Part) -> Iterator[list[bytes]]:
        """The rows of a part as stored, in blocks. Blocking."""
        if part.desc:
            return self._files.read_backwards(part.dataset_id, part.total - 1 - part.offset, part.count, part.total)
        return self._files.read(part.dataset_id, part.offset, part.count, part.total)

    def remove(self, dataset_id: str) -> None:
        """Deletes the rows."""
        self._files.remove(dataset_id)
        self._locks.pop(dataset_id, None)


async def in_thread(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    """The pieces, each made in a thread so that the event loop is not blocked."""
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
