"""Storages (datasets, key-value stores, request queues), the records of key-value stores, and signed links."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import shutil
import sqlite3
import string
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

from outlast.deploy.local.sandbox.database import Database, Page, Value
from outlast.deploy.local.sandbox.errors import ApiError
from outlast.deploy.local.sandbox.formats import new_id, now

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
