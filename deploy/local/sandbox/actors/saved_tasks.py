"""Actor tasks: an Actor with a saved input, under a name that is unique per user."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

import orjson

from outlast.deploy.local.sandbox.accounts.users import User
from outlast.deploy.local.sandbox.clock import iso, new_id, now
from outlast.deploy.local.sandbox.database import Database
from outlast.deploy.local.sandbox.http.errors import ApiError, not_found

JsonObject = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ActorTask:
    """One task."""

    id: str
    user_id: str
    name: str
    actor_id: str
    created_at: float
    modified_at: float
    document: JsonObject

    def shown(self, username: str) -> JsonObject:
        """The task object of the API."""
        return {
            "id": self.id,
            "userId": self.user_id,
            "actId": self.actor_id,
            "name": self.name,
            "username": username,
            "createdAt": iso(self.created_at),
            "modifiedAt": iso(self.modified_at),
            "stats": {"totalRuns": 0},
            "options": self.document.get("options"),
            "input": self.document.get("input"),
            "title": self.document.get("title"),
            "description": self.document.get("description"),
        }


class Tasks:
    """All tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, user: User, name: str, actor_id: str, document: JsonObject) -> ActorTask:
        """Saves a task. Raises `ApiError` 409 when the user has one of this name."""
        task_id, moment = new_id(), now()
        try:
            self._database.run(
                "INSERT INTO tasks (id, user_id, name, actor_id, created_at, modified_at, document)"
                " VALUES (?, ?, ?, ?, ?, ?, ?)",
                (task_id, user.id, name, actor_id, moment, moment, orjson.dumps(document)),
            )
        except sqlite3.IntegrityError as error:
            raise ApiError(409, "actor-task-name-not-unique", "Actor task name is not unique") from error
        return self.get(task_id, user)

    def get(self, reference: str, user: User) -> ActorTask:
        """A task by id or `username~name`. Raises `ApiError` 404."""
        name = reference.rpartition("~")[2]
        row = self._database.row(
            "SELECT * FROM tasks WHERE user_id = ? AND (id = ? OR name = ?)", (user.id, reference, name)
        )
        if row is None:
            raise not_found("Actor task")
        return _task(row)

    def list(self, user: User, *, offset: int, limit: int, desc: bool) -> tuple[list[ActorTask], int]:
        """One page of the user's tasks by creation time, and their total number."""
        order = "DESC" if desc else "ASC"
        rows = self._database.rows(
            f"SELECT * FROM tasks WHERE user_id = ? ORDER BY created_at {order}, rowid {order} LIMIT ? OFFSET ?",  # noqa: S608 (constants)
            (user.id, limit, offset),
        )
        return [_task(row) for row in rows], self._database.number(
            "SELECT count(*) FROM tasks WHERE user_id = ?", (user.id,)
        )

    def update(self, task: ActorTask, user: User, changes: JsonObject) -> ActorTask:
        """Changes a task. Raises `ApiError` 409 when the new name is taken."""
        try:
            self._database.run(
                "UPDATE tasks SET name = ?, modified_at = ?, document = ? WHERE id = ?",
                (changes.get("name", task.name), now(), orjson.dumps({**task.document, **changes}), task.id),
            )
        except sqlite3.IntegrityError as error:
            raise ApiError(409, "actor-task-name-not-unique", "Actor task name is not unique") from error
        return self.get(task.id, user)

    def delete(self, task: ActorTask) -> None:
        """Deletes a task. Its runs are kept."""
        self._database.run("DELETE FROM tasks WHERE id = ?", (task.id,))


def _task(row: sqlite3.Row) -> ActorTask:
    return ActorTask(
        row["id"],
        row["user_id"],
        row["name"],
        row["actor_id"],
        row["created_at"],
        row["modified_at"],
        orjson.loads(row["document"]),
    )
