"""Storages (datasets, key-value stores, request queues), items of datasets, records of stores, and signed links."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import re
import secrets
import shutil
import sqlite3
import string
import struct
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Literal, cast

from outlast.deploy.local.sandbox.database import Database, Page, Value
from outlast.deploy.local.sandbox.formats import ApiError, line_of, new_id, now, parse

_DIGITS = string.digits + string.ascii_lowercase + string.ascii_uppercase
_SIGNED_CHARS = 30
Kind = Literal["dataset", "key-value-store", "request-queue"]
KINDS: tuple[Kind, ...] = ("dataset", "key-value-store", "request-queue")
_KEY = re.compile(r"[a-zA-Z0-9!_.'()/\-%@:+ ~$*,;=&#\[\]{}]{1,256}")


class Storages:
    """Table of all storages with their ids, owners and names. Other modules hold the contents."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(
        self,
        kind: Kind,
        user_id: str,
        name: str | None = None,
        *,
        actor_id: str | None = None,
        run_id: str | None = None,
        max_items: int | None = None,
    ) -> str:
        """Create a storage and return its id."""
        storage_id, created_at = new_id(), now()
        self._database.run(
            "INSERT INTO storages (id, kind, user_id, name, actor_id, run_id, created_at, modified_at, accessed_at,"
            " max_items) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (storage_id, kind, user_id, name, actor_id, run_id, created_at, created_at, created_at, max_items),
        )
        return storage_id

    def get_or_create(self, kind: Kind, user_id: str, name: str | None) -> tuple[sqlite3.Row, bool]:
        """Return the user's storage of this name and whether it is new. Without a name, it is always new."""
        row = name and self._database.row(
            "SELECT * FROM storages WHERE kind = ? AND user_id = ? AND name = ?", (kind, user_id, name)
        )
        if row:
            return row, False
        return self.get(kind, self.create(kind, user_id, name or None), user_id), True

    def get(self, kind: Kind, reference: str, user_id: str, username: str | None = None) -> sqlite3.Row:
        """Return a storage by id or `username~name`. Raises `ApiError` 404, also for another user's storage."""
        what = kind.replace("-", " ").capitalize()
        return self._database.named("storages", reference, user_id, username, what=what, kind=kind)

    def any(self, kind: Kind, storage_id: str) -> sqlite3.Row | None:
        """Return a storage of any user by its id."""
        return self._database.row("SELECT * FROM storages WHERE id = ? AND kind = ?", (storage_id, kind))

    def list(self, kind: Kind, user_id: str, page: Page, *, unnamed: bool) -> tuple[list[sqlite3.Row], int]:
        """Return one page of a user's storages by creation time, and the total number."""
        condition = "kind = ? AND user_id = ?" + ("" if unnamed else " AND name IS NOT NULL")
        return self._database.page("storages", condition, (kind, user_id), page)

    def update(self, kind: Kind, row: sqlite3.Row, changes: dict[str, Value]) -> None:
        """Change name, title or access. Raises `ApiError` 409 if the name is taken."""
        columns = {"name": "name", "title": "title", "generalAccess": "general_access"}
        with self._database.transaction():
            for key, column in columns.items():
                if key not in changes:
                    continue
                try:
                    self._database.run(
                        f"UPDATE storages SET {column} = ?, modified_at = ? WHERE id = ?",  # noqa: S608 (constants)
                        (changes[key], now(), row["id"]),
                    )
                except sqlite3.IntegrityError as error:
                    raise ApiError(409, "name-not-unique", f"There is already a {kind} of this name") from error

    def touch(self, storage_id: str) -> None:
        """Record that the content changed."""
        moment = now()
        self._database.run(
            "UPDATE storages SET modified_at = ?, accessed_at = ? WHERE id = ?", (moment, moment, storage_id)
        )

    def delete(self, storage_id: str) -> None:
        """Delete the storage; the caller deletes its content."""
        self._database.run("DELETE FROM storages WHERE id = ?", (storage_id,))


class KeyValueStores:
    """Records of all key-value stores."""

    def __init__(self, database: Database, storages: Storages, directory: Path) -> None:
        self._database = database
        self._storages = storages
        self._directory = directory

    def put(self, store_id: str, key: str, content_type: str, value: bytes) -> None:
        """Write a small record atomically."""
        temporary = self._temporary(store_id)
        temporary.write_bytes(value)
        self._publish(store_id, key, content_type, temporary, len(value))

    async def put_stream(self, store_id: str, key: str, content_type: str, chunks: AsyncIterator[bytes]) -> None:
        """Write a record of any size atomically."""
        _check_key(key)
        temporary = self._temporary(store_id)
        size_bytes = 0
        try:
            with temporary.open("wb") as file:
                async for chunk in chunks:
                    size_bytes += file.write(chunk)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        self._publish(store_id, key, content_type, temporary, size_bytes)

    def get(self, store_id: str, key: str) -> tuple[Path, sqlite3.Row] | None:
        """Return a record's file and description."""
        row = self._database.row("SELECT * FROM records WHERE store_id = ? AND key = ?", (store_id, key))
        return None if row is None else (self._folder(store_id) / row["file"], row)

    def delete(self, store_id: str, key: str) -> None:
        """Remove a record if it exists."""
        found = self.get(store_id, key)
        if found is not None:
            self._database.run("DELETE FROM records WHERE store_id = ? AND key = ?", (store_id, key))
            found[0].unlink(missing_ok=True)
            self._storages.touch(store_id)

    def keys(self, store_id: str, after: str, prefix: str, limit: int) -> list[sqlite3.Row]:
        """Return keys after `after`, sorted."""
        return self._database.rows(
            "SELECT key, size_bytes FROM records WHERE store_id = ? AND key > ? AND substr(key, 1, ?) = ?"
            " ORDER BY key LIMIT ?",
            (store_id, after, len(prefix), prefix, limit),
        )

    def size_bytes(self, store_id: str) -> int:
        """Return the total size of all records."""
        return self._database.number("SELECT sum(size_bytes) FROM records WHERE store_id = ?", (store_id,))

    def remove(self, store_id: str) -> None:
        """Delete all records."""
        self._database.run("DELETE FROM records WHERE store_id = ?", (store_id,))
        shutil.rmtree(self._folder(store_id), ignore_errors=True)

    def _temporary(self, store_id: str) -> Path:
        folder = self._folder(store_id)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f".{secrets.token_hex(8)}.part"

    def _publish(self, store_id: str, key: str, content_type: str, temporary: Path, size_bytes: int) -> None:
        _check_key(key)
        # A new file for each version: readers of the old one can finish, and a crash in between leaves it valid.
        file = f"{hashlib.sha256(key.encode()).hexdigest()[:32]}-{secrets.token_hex(4)}"
        temporary.rename(self._folder(store_id) / file)
        previous = self.get(store_id, key)
        with self._database.transaction():
            self._database.run(
                "INSERT OR REPLACE INTO records (store_id, key, content_type, size_bytes, file) VALUES (?, ?, ?, ?, ?)",
                (store_id, key, content_type, size_bytes, file),
            )
            self._storages.touch(store_id)
        if previous is not None:
            previous[0].unlink(missing_ok=True)

    def _folder(self, store_id: str) -> Path:
        return self._directory / store_id[:2] / store_id


def _check_key(key: str) -> None:
    if not _KEY.fullmatch(key):
        raise ApiError(400, "invalid-record-key", "A record's key has 1 to 256 characters: a-zA-Z0-9!-_.'()")


class SignedLinks:
    """Signing keys of stores. Links are valid until the sandbox ends."""

    def __init__(self) -> None:
        self._secret = secrets.token_bytes(32)

    def key_of(self, store_id: str) -> str:
        """Return the key with which the store's owner signs links."""
        return hmac.new(self._secret, store_id.encode(), hashlib.sha256).hexdigest()

    def fits(self, store_id: str, signed: str, signature: str) -> bool:
        """Return whether the signature is valid for this text (the key of a record)."""
        digest = hmac.new(self.key_of(store_id).encode(), signed.encode(), hashlib.sha256).hexdigest()
        return hmac.compare_digest(_in_base_62(int(digest[:_SIGNED_CHARS], 16)), signature)


def _in_base_62(number: int) -> str:
    digits = ""
    while number:
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return digits or _DIGITS[0]


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
