"""Fires schedules when they come due: starts the runs of their actions, each time once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import orjson

from outlast.deploy.local.sandbox.accounts.users import User
from outlast.deploy.local.sandbox.http.errors import ApiError
from outlast.deploy.local.sandbox.http.routes.starts import Start, StartedBy, StartOptions, start_run
from outlast.deploy.local.sandbox.json_object import JsonObject
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.saved_tasks.task_table import merged_input
from outlast.deploy.local.sandbox.schedules.cron import next_time
from outlast.deploy.local.sandbox.schedules.schedule_table import RUN_TASK, Schedule
from outlast.deploy.local.sandbox.times_and_ids import now

logger = logging.getLogger(__name__)

_LONGEST_PAUSE_SECONDS = 30.0
"""The clock of the machine may be set while nothing is due."""


@asynccontextmanager
async def schedules_firing(platform: Platform) -> AsyncGenerator[None]:
    """Fire schedules while the block runs. Times that passed before are not made up for."""
    platform.schedules.skip_missed()
    clockwork = asyncio.create_task(_run(platform), name="schedules")
    try:
        yield
    finally:
        clockwork.cancel()
        await asyncio.gather(clockwork, return_exceptions=True)


async def _run(platform: Platform) -> None:
    while True:
        for schedule in platform.schedules.due(now()):
            fire(platform, schedule)
        at = platform.schedules.next_due_at()
        pause = _LONGEST_PAUSE_SECONDS if at is None else min(max(at - now(), 0), _LONGEST_PAUSE_SECONDS)
        platform.schedules_changed.clear()
        try:
            async with asyncio.timeout(pause):
                await platform.schedules_changed.wait()
        except TimeoutError:
            continue


def fire(platform: Platform, schedule: Schedule) -> None:
    """Start what the schedule is for. That it was fired is on disk first: a restart does not fire it again."""
    scheduled_at = schedule.next_run_at
    schedule.last_run_at = now()
    schedule.next_run_at = next_time(schedule.cron_expression, schedule.timezone, schedule.last_run_at)
    platform.schedules.save(schedule)
    user = platform.users.get(schedule.user_id)
    if user is None:
        return
    if schedule.is_exclusive and any(run.schedule_id == schedule.id for run in platform.runs.open):
        logger.info("schedule %s is exclusive, and what it started before still runs", schedule.name)
        return
    for action in schedule.actions:
        try:
            _start(platform, user, schedule, action, scheduled_at)
        except ApiError as error:
            logger.warning("an action of schedule %s was refused: %s", schedule.name, error)


def _start(platform: Platform, user: User, schedule: Schedule, action: JsonObject, scheduled_at: float | None) -> None:
    by = StartedBy("POST", f"/v2/schedules/{schedule.id}", "", None, "SCHEDULER", schedule.id, scheduled_at)
    if action["type"] == RUN_TASK:
        task = platform.tasks.find(str(action["actorTaskId"]), user.id, user.username)
        given = orjson.dumps(action["input"]) if action.get("input") else b""
        body, content_type = merged_input(task, given, "application/json")
        options = StartOptions.saved(task.options)
        start_run(
            platform,
            by,
            Start(platform.catalogue.find(task.actor_id, user), user, options, body, content_type, task.id),
        )
        return
    actor = platform.catalogue.find(str(action["actorId"]), user)
    written = cast("JsonObject", action.get("runInput") or {})
    body, content_type = str(written.get("body") or "").encode(), str(written.get("contentType") or "application/json")
    options = StartOptions.saved(cast("JsonObject", action.get("runOptions") or {}))
    start_run(platform, by, Start(actor, user, options, body, content_type))
