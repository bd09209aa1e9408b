"""The sandbox's state: one SQLite file, written in short transactions from the event loop's thread.

In WAL mode a committed transaction survives `kill -9` of the process, but not a power cut (synchronous=NORMAL).
"""

from __future__ import annotations

import logging
import secrets
import sqlite3
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, cast

import orjson

from outlast.deploy.local.sandbox.formats import JsonObject, not_found

Value = str | int | float | bytes | None
DAMAGED = "Its record in the sandbox's database is damaged: replace it, or delete it."
logger = logging.getLogger("sandbox")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS identity (id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS users (
    id TEXT PRIMARY KEY, username TEXT NOT NULL UNIQUE, created_at REAL NOT NULL);
CREATE TABLE IF NOT EXISTS tokens (
    digest TEXT PRIMARY KEY, user_id TEXT NOT NULL, run_id TEXT);
CREATE TABLE IF NOT EXISTS runs (
    sequence INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, user_id TEXT NOT NULL, actor_id TEXT NOT NULL,
    status TEXT NOT NULL, started_at REAL NOT NULL, listed_at REAL NOT NULL, operation TEXT,
    abort_requested INTEGER NOT NULL, deleted INTEGER NOT NULL, document BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS runs_by_user ON runs (user_id, started_at);
CREATE INDEX IF NOT EXISTS runs_by_actor ON runs (actor_id, started_at);
CREATE INDEX IF NOT EXISTS runs_by_operation ON runs (operation) WHERE operation IS NOT NULL;
CREATE INDEX IF NOT EXISTS runs_open ON runs (status)
    WHERE status IN ('READY', 'RUNNING', 'TIMING-OUT', 'ABORTING');
CREATE TABLE IF NOT EXISTS storages (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, user_id TEXT NOT NULL, name TEXT, title TEXT, actor_id TEXT, run_id TEXT,
    created_at REAL NOT NULL, modified_at REAL NOT NULL, accessed_at REAL NOT NULL, general_access TEXT,
    item_count INTEGER NOT NULL DEFAULT 0, size_bytes INTEGER NOT NULL DEFAULT 0,
    fields TEXT NOT NULL DEFAULT '[]', max_items INTEGER);
CREATE UNIQUE INDEX IF NOT EXISTS storages_by_name ON storages (user_id, kind, name) WHERE name IS NOT NULL;
CREATE INDEX IF NOT EXISTS storages_by_user ON storages (user_id, kind, created_at);
CREATE TABLE IF NOT EXISTS records (
    store_id TEXT NOT NULL, key TEXT NOT NULL, content_type TEXT NOT NULL, size_bytes INTEGER NOT NULL,
    file TEXT NOT NULL, PRIMARY KEY (store_id, key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS requests (
    queue_id TEXT NOT NULL, id TEXT NOT NULL, unique_key TEXT NOT NULL, position INTEGER, handled INTEGER NOT NULL,
    locked_until REAL, locked_by TEXT, document BLOB NOT NULL, PRIMARY KEY (queue_id, id)) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS requests_pending ON requests (queue_id, position) WHERE handled = 0;
CREATE TABLE IF NOT EXISTS queue_clients (
    queue_id TEXT NOT NULL, client_key TEXT NOT NULL, PRIMARY KEY (queue_id, client_key)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS webhooks (
    id TEXT PRIMARY KEY, user_id TEXT NOT NULL, run_id TEXT NOT NULL, created_at REAL NOT NULL, document BLOB NOT NULL);
CREATE INDEX IF NOT EXISTS webhooks_by_run ON webhooks (run_id);
CREATE TABLE IF NOT EXISTS dispatches (
    id TEXT PRIMARY KEY, webhook_id TEXT NOT NULL, user_id TEXT NOT NULL, event_type TEXT NOT NULL,
    created_at REAL NOT NULL, status TEXT NOT NULL, document BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS actor_tasks (
    id TEXT PRIMARY KEY, user_id TEXT NOT NULL, name TEXT NOT NULL, created_at REAL NOT NULL, document BLOB NOT NULL,
    UNIQUE (user_id, name));
CREATE TABLE IF NOT EXISTS schedules (
    id TEXT PRIMARY KEY, user_id TEXT NOT NULL, name TEXT NOT NULL, created_at REAL NOT NULL, next_run_at REAL,
    document BLOB NOT NULL, UNIQUE (user_id, name));
CREATE INDEX IF NOT EXISTS schedules_due ON schedules (next_run_at) WHERE next_run_at IS NOT NULL;
CREATE TABLE IF NOT EXISTS settlements (
    payment_id TEXT PRIMARY KEY, payer TEXT NOT NULL, amount TEXT NOT NULL, run_id TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS charges (
    run_id TEXT NOT NULL, idempotency_key TEXT NOT NULL, event TEXT NOT NULL, count INTEGER NOT NULL,
    PRIMARY KEY (run_id, idempotency_key)) WITHOUT ROWID;
"""


class Page(NamedTuple):
    """The part of a list that a request asks for."""

    offset: int
    limit: int
    desc: bool


def document_of(row: sqlite3.Row, column: str = "document") -> JsonObject | None:
    """Parse the JSON object in a row. A damaged one is logged and returned as None.

    Callers build a damaged object from the other columns, so that it can be shown, replaced and deleted.
    """
    try:
        found: object = orjson.loads(row[column])
    except (orjson.JSONDecodeError, TypeError):
        found = None
    if not isinstance(found, dict):
        logger.error("a record is damaged: %s", {name: row[name] for name in row.keys() if name != column})  # noqa: SIM118 (a row is no mapping)
        return None
    return cast("JsonObject", found)


class Database:
    """Connection to the SQLite file. Each statement is committed at once unless it runs inside `transaction()`."""

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.row_factory = sqlite3.Row
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = NORMAL")
        self._connection.executescript(_SCHEMA)
        # A random id, so that the stack detects another platform's database in this place.
        self.run("INSERT INTO identity SELECT ? WHERE NOT EXISTS (SELECT 1 FROM identity)", (secrets.token_hex(16),))

    def close(self) -> None:
        """Flush and close the file."""
        self._connection.close()

    @contextmanager
    def transaction(self) -> Generator[None]:
        """Commit all statements in the block together, or none. An inner transaction joins the outer one."""
        if self._connection.in_transaction:
            yield
            return
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._connection.execute("ROLLBACK")
            raise
        self._connection.execute("COMMIT")

    def run(self, statement: str, parameters: Sequence[Value] = ()) -> int:
        """Execute a statement and return the number of rows it changed."""
        return self._connection.execute(statement, parameters).rowcount

    def row(self, statement: str, parameters: Sequence[Value] = ()) -> sqlite3.Row | None:
        """Return the first row, if any."""
        row: sqlite3.Row | None = self._connection.execute(statement, parameters).fetchone()
        return row

    def rows(self, statement: str, parameters: Sequence[Value] = ()) -> list[sqlite3.Row]:
        """Return all rows."""
        return self._connection.execute(statement, parameters).fetchall()

    def number(self, statement: str, parameters: Sequence[Value] = ()) -> int:
        """Return the first column of the first row as a number, or 0 if there is none."""
        row = self.row(statement, parameters)
        return 0 if row is None or row[0] is None else int(row[0])

    def page(
        self, table: str, condition: str, parameters: Sequence[Value], page: Page, order: str = "created_at"
    ) -> tuple[list[sqlite3.Row], int]:
        """Return one page of the rows that match a condition, in the order of a column, and how many match."""
        direction = "DESC" if page.desc else "ASC"
        rows = self.rows(
            f"SELECT * FROM {table} WHERE {condition}"  # noqa: S608 (constants)
            f" ORDER BY {order} {direction}, rowid {direction} LIMIT ? OFFSET ?",
            [*parameters, page.limit, page.offset],
        )
        return rows, self.number(f"SELECT count(*) FROM {table} WHERE {condition}", parameters)  # noqa: S608

    def named(
        self, table: str, reference: str, user_id: str, username: str | None, *, what: str, kind: str | None = None
    ) -> sqlite3.Row:
        """Return a user's row by its id or `username~name`; with `kind`, only a row of this kind.

        Raises `ApiError` 404, also for another user's row; `what` names the object in the message.
        """
        condition = "user_id = ?" + ("" if kind is None else " AND kind = ?")
        parameters = [user_id] if kind is None else [user_id, kind]
        row = self.row(f"SELECT * FROM {table} WHERE id = ? AND {condition}", [reference, *parameters])  # noqa: S608
        owner, separator, name = reference.partition("~")
        if row is None and separator and owner in {"", username, user_id}:
            row = self.row(f"SELECT * FROM {table} WHERE name = ? AND {condition}", [name, *parameters])  # noqa: S608
        if row is None:
            raise not_found(what)
        return row
