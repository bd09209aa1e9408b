"""Saved Actor tasks: their table and their representation in the API."""

from __future__ import annotations

import itertools
import re
import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field

import orjson

from outlast.deploy.local.sandbox.actors import Actor
from outlast.deploy.local.sandbox.database import DAMAGED, Database, Page, document_of
from outlast.deploy.local.sandbox.formats import ApiError, JsonObject, iso, new_id, now

_NAME = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9-]{1,61})[a-zA-Z0-9]")
_OPTIONS = ("build", "timeoutSecs", "memoryMbytes", "maxItems", "maxTotalChargeUsd", "restartOnError")
_PUBLIC = ("seoTitle", "seoDescription", "inputSchemaFields", "datasetName", "datasetView")


@dataclass(slots=True)
class SavedTask:
    """Saved task. Times are seconds since the epoch."""

    id: str
    user_id: str
    username: str
    actor_id: str
    name: str
    created_at: float
    modified_at: float
    title: str | None = None
    description: str | None = None
    input: JsonObject | None = None
    options: JsonObject = field(default_factory=dict[str, object])
    public_config: JsonObject | None = None
    published_at: float | None = None

    def details(self, runs: int) -> JsonObject:
        """Return the task object of the API; `runs` is the number of its runs."""
        public = self.public_config
        published = {"publishedAt": iso(self.published_at)} if self.published_at is not None else {}
        return {
            "id": self.id,
            "userId": self.user_id,
            "actId": self.actor_id,
            "name": self.name,
            "username": self.username,
            "createdAt": iso(self.created_at),
            "modifiedAt": iso(self.modified_at),
            "removedAt": None,
            "stats": {"totalRuns": runs},
            "options": self.options,
            "input": self.input,
            "title": self.title,
            "description": self.description,
            "isPublic": self.published_at is not None,
            "publicConfig": None if public is None else {**public, **published},
        }


class SavedTasks:
    """Table of all saved tasks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, actor: Actor, user_id: str, username: str, given: JsonObject) -> SavedTask:
        """Create a task of `actor`. Raises `ApiError` 400 for invalid fields, 409 for a name that is taken."""
        moment = now()
        name = given.get("name") or self._free_name(actor, user_id)
        task = SavedTask(new_id(), user_id, username, actor.id, str(name), moment, moment)
        self.change(task, actor, {**given, "name": name})
        return task

    def change(self, task: SavedTask, actor: Actor, given: JsonObject) -> None:
        """Change the fields that are given, and save. Raises `ApiError`."""
        if "name" in given:
            task.name = _checked_name(given["name"])
        for name in ("title", "description"):
            if name in given:
                setattr(task, name, None if given[name] is None else str(given[name]))
        if "input" in given:
            task.input = _object_or_none(given["input"], "input")
        if "options" in given:
            options = _object_or_none(given["options"], "options") or {}
            task.options |= {key: options[key] for key in _OPTIONS if options.get(key) is not None}
        if "publicConfig" in given:
            public = _object_or_none(given["publicConfig"], "publicConfig")
            kept = task.public_config or {}
            task.public_config = public and {**kept, **{key: public[key] for key in _PUBLIC if key in public}}
        if "isPublic" in given:
            _publish(task, actor, wanted=bool(given["isPublic"]))
        task.modified_at = now()
        self._save(task)

    def find(self, reference: str, user_id: str, username: str) -> SavedTask:
        """Return a user's task by its id or `username~name`. Raises `ApiError` 404."""
        return _task(self._database.named("actor_tasks", reference, user_id, username, what="Actor task"))

    def list(self, user_id: str, page: Page) -> tuple[list[SavedTask], int]:
        """Return one page of a user's tasks by creation time, and the total number."""
        rows, total = self._database.page("actor_tasks", "user_id = ?", (user_id,), page)
        return [_task(row) for row in rows], total

    def delete(self, task: SavedTask) -> None:
        """Remove a task; its runs stay."""
        self._database.run("DELETE FROM actor_tasks WHERE id = ?", (task.id,))

    def _save(self, task: SavedTask) -> None:
        try:
            self._database.run(
                "INSERT INTO actor_tasks (id, user_id, name, created_at, document) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET name = excluded.name, document = excluded.document",
                (task.id, task.user_id, task.name, task.created_at, orjson.dumps(task)),
            )
        except sqlite3.IntegrityError as error:
            raise ApiError(409, "actor-task-name-not-unique", "There is already a task of this name") from error

    def _free_name(self, actor: Actor, user_id: str) -> str:
        """Return a name that no task of the user has: `my-actor-task`, `my-actor-task-2` and so on."""
        base = f"{actor.name[:50]}-task"
        taken = {
            row["name"] for row in self._database.rows("SELECT name FROM actor_tasks WHERE user_id = ?", (user_id,))
        }
        names = (f"{base}-{number}" for number in itertools.count(2))
        return base if base not in taken else next(name for name in names if name not in taken)


def merged_input(task: SavedTask, given: bytes, content_type: str) -> tuple[bytes, str]:
    """Return the input of a run of `task`: fields of `given`, a JSON object, replace saved ones."""
    if not given:
        return orjson.dumps(task.input or {}), "application/json"
    try:
        over: object = orjson.loads(given)
    except orjson.JSONDecodeError:
        return given, content_type
    if not isinstance(over, dict):
        return given, content_type
    return orjson.dumps({**(task.input or {}), **over}), "application/json"


def _publish(task: SavedTask, actor: Actor, *, wanted: bool) -> None:
    """Publish or unpublish a task. Publishing twice changes nothing, as on the platform."""
    if not wanted:
        task.published_at = None
        return
    if not actor.is_public or not task.public_config:
        message = "Only a task of a public Actor that has a publicConfig can be published"
        raise ApiError(400, "invalid-request", message)
    task.published_at = task.published_at or now()


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise ApiError(400, "invalid-value", "The name of a task has 3 to 63 letters, digits and inner hyphens")
    return name


def _object_or_none(value: object, name: str) -> JsonObject | None:
    if value is None:
        return None
    if not isinstance(value, dict):
        raise ApiError(400, "invalid-request", f"'{name}' must be a JSON object")
    return {str(key): entry for key, entry in value.items()}  # type: ignore[misc]


def _task(row: sqlite3.Row) -> SavedTask:
    document = document_of(row)
    if document is not None:
        with suppress(TypeError):
            return SavedTask(**document)
    moment = row["created_at"]
    return SavedTask(
        row["id"], row["user_id"], "", "", row["name"], moment, moment, title="Damaged", description=DAMAGED
    )
