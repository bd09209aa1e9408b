"""Saved tasks of Actors, and schedules."""

from __future__ import annotations

import itertools
import re
import sqlite3
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import cast
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import orjson
from cronsim import CronSim, CronSimError

from outlast.deploy.local.sandbox.actors import Actor
from outlast.deploy.local.sandbox.database import DAMAGED, Database, Page, document_of
from outlast.deploy.local.sandbox.formats import ApiError, JsonObject, iso, iso_or_none, new_id, not_found, now

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


RUN_ACTOR, RUN_TASK = "RUN_ACTOR", "RUN_ACTOR_TASK"
_ALIASES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = 5
_TARGETS = {RUN_ACTOR: "actorId", RUN_TASK: "actorTaskId"}
MAX_ACTIONS_OF_A_KIND = 10
_MAX_TITLE_CHARS = 40


@dataclass(slots=True)
class Schedule:
    """Schedule. Times are seconds since the epoch; `next_run_at` is None while it is disabled."""

    id: str
    user_id: str
    name: str
    created_at: float
    modified_at: float
    cron_expression: str
    timezone: str = "UTC"
    is_enabled: bool = True
    is_exclusive: bool = True
    title: str | None = None
    description: str | None = None
    actions: list[JsonObject] = field(default_factory=list[JsonObject])
    next_run_at: float | None = None
    last_run_at: float | None = None

    def details(self) -> JsonObject:
        """Return the schedule object of the API."""
        return {
            "id": self.id,
            "userId": self.user_id,
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "cronExpression": self.cron_expression,
            "timezone": self.timezone,
            "isEnabled": self.is_enabled,
            "isExclusive": self.is_exclusive,
            "createdAt": iso(self.created_at),
            "modifiedAt": iso(self.modified_at),
            "nextRunAt": iso_or_none(self.next_run_at),
            "lastRunAt": iso_or_none(self.last_run_at),
            "notifications": {"email": False},
            "actions": self.actions,
        }


class Schedules:
    """Table of all schedules."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def create(self, user_id: str, given: JsonObject) -> Schedule:
        """Create a schedule. Raises `ApiError` 400 for invalid fields, 409 for a name that is taken."""
        if not given.get("cronExpression"):
            raise ApiError(400, "invalid-request", "The field 'cronExpression' is required")
        moment, schedule_id = now(), new_id()
        name = str(given.get("name") or f"schedule-{schedule_id[:8].lower()}")
        schedule = Schedule(schedule_id, user_id, name, moment, moment, str(given["cronExpression"]))
        self.change(schedule, {**given, "name": name})
        return schedule

    def change(self, schedule: Schedule, given: JsonObject) -> None:
        """Change the fields that are given, compute the next time, and save. Raises `ApiError`."""
        texts = {"name": "name", "cronExpression": "cron_expression", "timezone": "timezone"}
        for field_name, attribute in texts.items():
            if given.get(field_name) is not None:
                setattr(schedule, attribute, str(given[field_name]))
        for name in ("title", "description"):
            if name in given:
                setattr(schedule, name, None if given[name] is None else str(given[name]))
        if len(schedule.title or "") > _MAX_TITLE_CHARS:
            raise ApiError(400, "invalid-value", f"The title has at most {_MAX_TITLE_CHARS} characters")
        schedule.is_enabled = bool(given.get("isEnabled", schedule.is_enabled))
        schedule.is_exclusive = bool(given.get("isExclusive", schedule.is_exclusive))
        if given.get("actions") is not None:
            schedule.actions = checked_actions(given["actions"])
        schedule.modified_at = now()
        due = next_time(schedule.cron_expression, schedule.timezone, schedule.modified_at)
        schedule.next_run_at = due if schedule.is_enabled else None
        self.save(schedule)

    def save(self, schedule: Schedule) -> None:
        """Write a schedule. Raises `ApiError` 409 for a name that is taken."""
        try:
            self._database.run(
                "INSERT INTO schedules (id, user_id, name, created_at, next_run_at, document) VALUES (?, ?, ?, ?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET name = excluded.name, next_run_at = excluded.next_run_at,"
                " document = excluded.document",
                (
                    schedule.id, schedule.user_id, schedule.name, schedule.created_at, schedule.next_run_at,
                    orjson.dumps(schedule),
                ),
            )  # fmt: skip
        except sqlite3.IntegrityError as error:
            raise ApiError(409, "schedule-name-not-unique", "There is already a schedule of this name") from error

    def find(self, reference: str, user_id: str, username: str) -> Schedule:
        """Return a user's schedule by its id or `username~name`. Raises `ApiError` 404."""
        return _schedule(self._database.named("schedules", reference, user_id, username, what="Schedule"))

    def any(self, schedule_id: str) -> Schedule:
        """Return a schedule of any user. Raises `ApiError` 404."""
        row = self._database.row("SELECT * FROM schedules WHERE id = ?", (schedule_id,))
        if row is None:
            raise not_found("Schedule")
        return _schedule(row)

    def list(self, user_id: str, page: Page) -> tuple[list[Schedule], int]:
        """Return one page of a user's schedules by creation time, and the total number."""
        rows, total = self._database.page("schedules", "user_id = ?", (user_id,), page)
        return [_schedule(row) for row in rows], total

    def delete(self, schedule: Schedule) -> None:
        """Remove a schedule; runs that it started continue."""
        self._database.run("DELETE FROM schedules WHERE id = ?", (schedule.id,))

    def due(self, moment: float) -> list[Schedule]:
        """Return the enabled schedules whose time has come."""
        rows = self._database.rows("SELECT * FROM schedules WHERE next_run_at <= ?", (moment,))
        return [schedule for schedule in map(_schedule, rows) if schedule.is_enabled]

    def next_due_at(self) -> float | None:
        """Return when the next schedule is due."""
        row = self._database.row("SELECT min(next_run_at) AS at FROM schedules", ())
        return None if row is None else cast("float | None", row["at"])

    def make_due(self, schedule: Schedule) -> None:
        """Make a schedule due now, for tests."""
        schedule.next_run_at = now()
        self.save(schedule)

    def skip_missed(self) -> None:
        """Move schedules that were due while the platform was stopped to their next time: missed runs are dropped."""
        for schedule in self.due(now()):
            schedule.next_run_at = next_time(schedule.cron_expression, schedule.timezone, now())
            self.save(schedule)


def checked_actions(actions: object) -> list[JsonObject]:
    """Return the actions, each with an id. Raises `ApiError`."""
    if not isinstance(actions, list):
        raise ApiError(400, "invalid-request", "'actions' must be a list")
    checked: list[JsonObject] = []
    for action in cast("list[JsonObject]", actions):
        target = _TARGETS.get(str(action.get("type")))
        if target is None or not action.get(target):
            raise ApiError(
                400, "invalid-value", "An action is RUN_ACTOR with actorId, or RUN_ACTOR_TASK with actorTaskId"
            )
        checked.append({**action, "id": action.get("id") or new_id()})
    for kind in _TARGETS:
        if sum(action["type"] == kind for action in checked) > MAX_ACTIONS_OF_A_KIND:
            raise ApiError(400, "invalid-value", f"A schedule has at most {MAX_ACTIONS_OF_A_KIND} actions of a kind")
    return checked


def next_time(expression: str, timezone: str, after: float) -> float | None:
    """Return the first time after `after` (seconds since the epoch), None if there is none. Raises `ApiError` 400."""
    written = _ALIASES.get(expression.strip().lower(), expression.strip())
    if len(written.split()) != _FIELDS:
        raise ApiError(400, "invalid-value", "A cron expression has five fields: minute hour day month weekday")
    start = datetime.fromtimestamp(after, UTC).astimezone(_zone(timezone))
    try:
        return next(CronSim(written, start)).timestamp()
    except CronSimError as error:
        raise ApiError(400, "invalid-value", f"The cron expression is not valid: {error}") from error
    except StopIteration:
        return None


def _zone(name: str) -> ZoneInfo:
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, IsADirectoryError) as error:
        raise ApiError(400, "invalid-value", f"There is no time zone '{name}'") from error


def _schedule(row: sqlite3.Row) -> Schedule:
    document = document_of(row)
    if document is not None:
        with suppress(TypeError):
            return Schedule(**document)
    moment = row["created_at"]
    return Schedule(
        row["id"], row["user_id"], row["name"], moment, moment, "0 0 1 1 *",
        is_enabled=False, title="Damaged", description=DAMAGED,
    )  # fmt: skip
