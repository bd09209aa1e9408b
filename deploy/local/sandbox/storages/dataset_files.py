"""The rows of datasets: one file of JSON lines each, and an index that says at which byte every 256th row begins.

The database holds the number of valid rows and bytes. Bytes after them (an append that `kill -9` interrupted) are never
read, and the next append overwrites them.
"""

from __future__ import annotations

import logging
import shutil
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

logger = logging.getLogger("sandbox")

INDEX_STEP = 256
_ENTRY = struct.Struct("<Q")


class DatasetFiles:
    """Blocking file access. Callers use a thread for large reads and writes."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def append(self, dataset_id: str, item_count: int, size_bytes: int, lines: Sequence[bytes]) -> int:
        """Writes lines (with their line ends) after the valid part and returns the new size in bytes."""
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
        """Rows from `first` on, in blocks. `total` is the number of valid rows."""
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
                items.seek(0)  # The index is damaged: the rows are counted.
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
        """Rows from `first` backwards, in blocks."""
        last = max(first - count, -1)
        row = first
        while row > last:
            start = max(last + 1, row - row % INDEX_STEP)
            block = [line for part in self.read(dataset_id, start, row - start + 1, total) for line in part]
            yield block[::-1]
            row = start - 1

    def remove(self, dataset_id: str) -> None:
        """Deletes all rows."""
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
