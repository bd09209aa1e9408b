"""Key-value stores: one file per record."""

from __future__ import annotations

import hashlib
import re
import secrets
import shutil
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

from outlast.deploy.local.sandbox.database import Database
from outlast.deploy.local.sandbox.http.errors import ApiError
from outlast.deploy.local.sandbox.storages.storage_table import Storages

_KEY = re.compile(r"[a-zA-Z0-9!_.'()/\-%@:+ ~$*,;=&#\[\]{}]{1,256}")


class KeyValueStores:
    """The records of all stores."""

    def __init__(self, database: Database, storages: Storages, directory: Path) -> None:
        self._database = database
        self._storages = storages
        self._directory = directory

    def put(self, store_id: str, key: str, content_type: str, value: bytes) -> None:
        """Writes a small record atomically."""
        temporary = self._temporary(store_id)
        temporary.write_bytes(value)
        self._publish(store_id, key, content_type, temporary, len(value))

    async def put_stream(self, store_id: str, key: str, content_type: str, chunks: AsyncIterator[bytes]) -> None:
        """Writes a record of any size atomically."""
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
        """A record's file and description."""
        row = self._database.row("SELECT * FROM records WHERE store_id = ? AND key = ?", (store_id, key))
        return None if row is None else (self._folder(store_id) / row["file"], row)

    def delete(self, store_id: str, key: str) -> None:
        """Removes a record if it exists."""
        found = self.get(store_id, key)
        if found is not None:
            self._database.run("DELETE FROM records WHERE store_id = ? AND key = ?", (store_id, key))
            found[0].unlink(missing_ok=True)
            self._storages.touch(store_id)

    def keys(self, store_id: str, after: str, prefix: str, limit: int) -> list[sqlite3.Row]:
        """Keys after `after`, sorted."""
        return self._database.rows(
            "SELECT key, size_bytes FROM records WHERE store_id = ? AND key > ? AND substr(key, 1, ?) = ?"
            " ORDER BY key LIMIT ?",
            (store_id, after, len(prefix), prefix, limit),
        )

    def size_bytes(self, store_id: str) -> int:
        """The total size of all records."""
        return self._database.number("SELECT sum(size_bytes) FROM records WHERE store_id = ?", (store_id,))

    def remove(self, store_id: str) -> None:
        """Deletes all records."""
        self._database.run("DELETE FROM records WHERE store_id = ?", (store_id,))
        shutil.rmtree(self._folder(store_id), ignore_errors=True)

    def _temporary(self, store_id: str) -> Path:
        folder = self._folder(store_id)
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f".{secrets.token_hex(8)}.part"

    def _publish(self, store_id: str, key: str, content_type: str, temporary: Path, size_bytes: int) -> None:
        _check_key(key)
        # A new file for each version: readers of the old one can go on, and a crash in between leaves it valid.
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
