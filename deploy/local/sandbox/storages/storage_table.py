"""The table of storages: what datasets, key-value stores and request queues have in common."""

from __future__ import annotations

import sqlite3
from typing import Literal

from outlast.deploy.local.sandbox.database import Database, Value
from outlast.deploy.local.sandbox.http.errors import ApiError, not_found
from outlast.deploy.local.sandbox.times_and_ids import new_id, now

Kind = Literal["dataset", "key-value-store", "request-queue"]
KINDS: tuple[Kind, ...] = ("dataset", "key-value-store", "request-queue")


class Storages:
    """All storages with their ids, owners and names. The contents are in other modules."""

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
        """Creates a storage and returns its id."""
        storage_id, created_at = new_id(), now()
        self._database.run(
            "INSERT INTO storages (id, kind, user_id, name, actor_id, run_id, created_at, modified_at, accessed_at,"
            " max_items) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (storage_id, kind, user_id, name, actor_id, run_id, created_at, created_at, created_at, max_items),
        )
        return storage_id

    def get_or_create(self, kind: Kind, user_id: str, name: str | None) -> tuple[sqlite3.Row, bool]:
        """The user's storage of this name, and whether it is new. Without a name, always a new one."""
        row = self._by_name(kind, user_id, name) if name else None
        if row is not None:
            return row, False
        return self.get(kind, self.create(kind, user_id, name or None), user_id), True

    def get(self, kind: Kind, reference: str, user_id: str, username: str | None = None) -> sqlite3.Row:
        """A storage by id or `username~name`. Raises `ApiError` 404, also for another user's storage."""
        row = self._database.row(
            "SELECT * FROM storages WHERE id = ? AND kind = ? AND user_id = ?", (reference, kind, user_id)
        )
        if row is None and "~" in reference:
            owner, _, name = reference.partition("~")
            row = self._by_name(kind, user_id, name) if owner in {"", username, user_id} else None
        if row is None:
            raise not_found(kind.replace("-", " ").capitalize())
        return row

    def any(self, kind: Kind, storage_id: str) -> sqlite3.Row | None:
        """A storage of any user, by its id."""
        return self._database.row("SELECT * FROM storages WHERE id = ? AND kind = ?", (storage_id, kind))

    def list(
        self, kind: Kind, user_id: str, *, offset: int, limit: int, desc: bool, unnamed: bool
    ) -> tuple[list[sqlite3.Row], int]:
        """One page of a user's storages by creation time, and the total number."""
        condition = "kind = ? AND user_id = ?" + ("" if unnamed else " AND name IS NOT NULL")
        order = "DESC" if desc else "ASC"
        rows = self._database.rows(
            f"SELECT * FROM storages WHERE {condition} ORDER BY created_at {order}, rowid {order} LIMIT ? OFFSET ?",  # noqa: S608 (constants)
            (kind, user_id, limit, offset),
        )
        total = self._database.number(f"SELECT count(*) FROM storages WHERE {condition}", (kind, user_id))  # noqa: S608
        return rows, total

    def update(self, kind: Kind, row: sqlite3.Row, changes: dict[str, Value]) -> None:
        """Changes name, title or access. Raises `ApiError` 409 when the name is taken."""
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
        """Records that the content changed."""
        moment = now()
        self._database.run(
            "UPDATE storages SET modified_at = ?, accessed_at = ? WHERE id = ?", (moment, moment, storage_id)
        )

    def delete(self, storage_id: str) -> None:
        """Deletes the storage; the caller deletes its content."""
        self._database.run("DELETE FROM storages WHERE id = ?", (storage_id,))

    def _by_name(self, kind: Kind, user_id: str, name: str | None) -> sqlite3.Row | None:
        return self._database.row(
            "SELECT * FROM storages WHERE kind = ? AND user_id = ? AND name = ?", (kind, user_id, name)
        )
