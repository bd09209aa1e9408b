"""Starts of runs by requests and by schedules: all checks first, then one transaction, then the process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import cast

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.deploy.local.sandbox.accounts import User, checked_memory
from outlast.deploy.local.sandbox.actors import Actor, prepared_input
from outlast.deploy.local.sandbox.formats import ApiError, JsonObject, invalid_parameter, new_id, now
from outlast.deploy.local.sandbox.http import query
from outlast.deploy.local.sandbox.http.query import (
    body_object,
    data_response,
    integer_or_none,
    json_response,
    number_or_none,
)
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.runs import Run
from outlast.deploy.local.sandbox.saved_tasks import (
    RUN_TASK,
    SavedTask,
    Schedule,
    checked_actions,
    merged_input,
    next_time,
)
from outlast.deploy.local.sandbox.storages import Kind
from outlast.deploy.local.sandbox.webhooks import parse_webhooks

_ALIASED: dict[str, Kind] = {"datasets": "dataset", "keyValueStores": "key-value-store"}
logger = logging.getLogger(__name__)
_LONGEST_PAUSE_SECONDS = 30.0
"""Limits the wait for the next schedule, because the machine's clock may be changed."""


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Options of a start. None means the Actor's default."""

    build: str | None
    memory_mbytes: int | None
    timeout_seconds: int | None
    max_items: int | None
    max_total_charge_usd: float | None
    webhooks: list[JsonObject]

    @staticmethod
    def of(request: Request) -> StartOptions:
        """Return the options in the query."""
        return StartOptions(
            build=request.query_params.get("build"),
            memory_mbytes=integer_or_none(request, "memory"),
            timeout_seconds=integer_or_none(request, "timeout"),
            max_items=integer_or_none(request, "maxItems"),
            max_total_charge_usd=number_or_none(request, "maxTotalChargeUsd"),
            webhooks=parse_webhooks(request.query_params.get("webhooks")),
        )

    @staticmethod
    def saved(options: JsonObject) -> StartOptions:
        """Return the options that a task or a schedule has saved."""
        return StartOptions(None, None, None, None, None, []).over(options)

    def over(self, saved: JsonObject) -> StartOptions:
        """Return these options; those that are None are replaced by the options that a task has saved."""
        return StartOptions(
            build=self.build or saved.get("build"),
            memory_mbytes=self.memory_mbytes or saved.get("memoryMbytes"),
            timeout_seconds=saved.get("timeoutSecs") if self.timeout_seconds is None else self.timeout_seconds,
            max_items=self.max_items or saved.get("maxItems"),
            max_total_charge_usd=self.max_total_charge_usd or saved.get("maxTotalChargeUsd"),
            webhooks=self.webhooks,
        )


@dataclass(frozen=True, slots=True)
class Start:
    """Request to start an Actor, or a saved task of it."""

    actor: Actor
    user: User
    options: StartOptions
    body: bytes
    content_type: str
    task_id: str | None = None


@dataclass(frozen=True, slots=True)
class StartedBy:
    """Origin of a start."""

    method: str
    path: str
    user_agent: str
    client_ip: str | None
    origin: str
    schedule_id: str | None = None
    scheduled_at: float | None = None

    @staticmethod
    def of(request: Request, user: User) -> StartedBy:
        """Return the origin of a request by a program, or by a run that starts another."""
        client = request.client.host if request.client else None
        origin = "ACTOR" if user.run_id else "API"
        return StartedBy(request.method, request.url.path, request.headers.get("user-agent", ""), client, origin)


def start_run(platform: Platform, by: StartedBy, start: Start) -> Run:
    """Check the request, save the run as READY and start it. Raises `ApiError` 400 or 402.

    A payment that came with the request is recorded in the same transaction as the run.
    """
    actor, options = start.actor, start.options
    _check_build(actor, options.build)
    memory_mbytes = checked_memory(options.memory_mbytes or actor.default_memory_mbytes)
    _check_actor_memory(actor, memory_mbytes)
    value, content_type = prepared_input(actor.input_schema, start.body, start.content_type)
    platform.limits.check(platform.runs.open, start.user.id, memory_mbytes)
    with platform.database.transaction():
        run = _new_run(platform, by, start, memory_mbytes)
        run.input_bytes = len(value)
        if value:
            platform.stores.put(run.store_id, "INPUT", content_type, value)
        platform.runs.save(run)
        if start.user.payment is not None:
            platform.settlements.settle(start.user.payment, run.id)
        platform.webhooks.add(run, options.webhooks)
    platform.supervisor.start(run)
    return run


def check_resurrection(platform: Platform, run: Run, options: StartOptions) -> int:
    """Return the memory, in MB, with which an ended run starts again. Raises `ApiError` 400 for invalid options.

    Limits on the cost of the run can only be raised.
    """
    actor = platform.catalogue.by_id(run.actor_id)
    memory_mbytes = checked_memory(options.memory_mbytes or run.memory_mbytes)
    if actor is not None:
        _check_build(actor, options.build)
        _check_actor_memory(actor, memory_mbytes)
    limits = (
        ("maxItems", options.max_items, run.max_items),
        ("maxTotalChargeUsd", options.max_total_charge_usd, run.max_total_charge_usd),
    )
    for name, wanted, before in limits:
        if wanted is not None and before is not None and wanted < before:
            raise invalid_parameter(f"{name} of a resurrected run can only be increased: it was {before}")
    return memory_mbytes


def _new_run(platform: Platform, by: StartedBy, start: Start, memory_mbytes: int) -> Run:
    actor, options, user = start.actor, start.options, start.user
    run_id = new_id()
    listed_at, shown_at = platform.faults.shown_from(by.method, by.path, by.user_agent)
    create = platform.storages.create
    timeout_seconds = options.timeout_seconds
    return Run(
        id=run_id,
        user_id=user.id,
        actor_id=actor.id,
        actor_name=actor.full_name,
        build_id=actor.build_id,
        build_number=actor.build_number,
        build_tag=options.build or actor.build_tag,
        memory_mbytes=memory_mbytes,
        timeout_seconds=actor.default_timeout_seconds if timeout_seconds is None else timeout_seconds,
        dataset_id=create("dataset", user.id, actor_id=actor.id, run_id=run_id, max_items=options.max_items),
        store_id=create("key-value-store", user.id, actor_id=actor.id, run_id=run_id),
        queue_id=create("request-queue", user.id, actor_id=actor.id, run_id=run_id),
        started_at=now(),
        origin=by.origin,
        max_items=options.max_items,
        max_total_charge_usd=options.max_total_charge_usd,
        user_agent=by.user_agent or None,
        client_ip=by.client_ip,
        task_id=start.task_id,
        schedule_id=by.schedule_id,
        scheduled_at=by.scheduled_at,
        listed_at=listed_at,
        shown_at=shown_at,
        prices=actor.price_per_event,
        aliased={
            kind: {alias: create(stored, user.id, actor_id=actor.id, run_id=run_id) for alias in actor.aliases(kind)}
            for kind, stored in _ALIASED.items()
        },
    )


def _check_build(actor: Actor, build: str | None) -> None:
    if build not in {None, "", actor.build_tag, "latest", actor.build_number, actor.version}:
        raise ApiError(400, "unknown-build-tag", f"Actor {actor.full_name} has no build '{build}'")


def _check_actor_memory(actor: Actor, memory_mbytes: int) -> None:
    minimum = actor.definition.get("minMemoryMbytes")
    maximum = actor.definition.get("maxMemoryMbytes")
    if minimum is not None and memory_mbytes < minimum:
        raise invalid_parameter(f"Memory must be at least {minimum} MB for this Actor, not {memory_mbytes}")
    if maximum is not None and memory_mbytes > maximum:
        raise invalid_parameter(f"Memory must be at most {maximum} MB for this Actor, not {memory_mbytes}")


@asynccontextmanager
async def schedules_firing(platform: Platform) -> AsyncGenerator[None]:
    """Fire schedules while the block runs. Times that passed before are skipped."""
    platform.schedules.skip_missed()
    firing = asyncio.create_task(_fire_due(platform), name="schedules")
    try:
        yield
    finally:
        firing.cancel()
        await asyncio.gather(firing, return_exceptions=True)


async def _fire_due(platform: Platform) -> None:
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
    """Start the actions of the schedule. The firing is recorded first, so that a restart does not repeat it."""
    scheduled_at = schedule.next_run_at
    schedule.last_run_at = now()
    schedule.next_run_at = next_time(schedule.cron_expression, schedule.timezone, schedule.last_run_at)
    platform.schedules.save(schedule)
    user = platform.users.get(schedule.user_id)
    if user is None:
        return
    if schedule.is_exclusive and any(run.schedule_id == schedule.id for run in platform.runs.open):
        logger.info("schedule %s is exclusive, and its previous run has not ended", schedule.name)
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
        actor_id, saved, task_id = task.actor_id, task.options, task.id
    else:
        written = cast("JsonObject", action.get("runInput") or {})
        body = str(written.get("body") or "").encode()
        content_type = str(written.get("contentType") or "application/json")
        saved = cast("JsonObject", action.get("runOptions") or {})
        actor_id, task_id = str(action["actorId"]), None
    actor = platform.catalogue.find(actor_id, user)
    start_run(platform, by, Start(actor, user, StartOptions.saved(saved), body, content_type, task_id))


_LISTED = ("id", "userId", "actId", "name", "username", "createdAt", "modifiedAt", "stats", "title")


class ActorTaskRoutes:
    """`/actor-tasks`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def routes(self) -> list[Route]:
        """Return the routes to add to the application."""
        one = "/v2/actor-tasks/{task_id}"
        return [
            Route("/v2/actor-tasks", self._list, methods=["GET"]),
            Route("/v2/actor-tasks", self._create, methods=["POST"]),
            Route(one, self._get, methods=["GET"]),
            Route(one, self._update, methods=["PUT"]),
            Route(one, self._delete, methods=["DELETE"]),
            Route(f"{one}/input", self._get_input, methods=["GET"]),
            Route(f"{one}/input", self._update_input, methods=["PUT"]),
            Route(f"{one}/runs", self._start, methods=["POST"]),
        ]

    async def _list(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        page = query.page_of(request)
        tasks, total = self._platform.tasks.list(user.id, page)
        return query.page_response([self._listed(task) for task in tasks], total, page)

    async def _create(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        given = await body_object(request)
        if not given.get("actId"):
            raise ApiError(400, "invalid-request", "The field 'actId' is required")
        actor = self._platform.catalogue.find(str(given["actId"]), user)
        return self._details(self._platform.tasks.create(actor, user.id, user.username, given), 201)

    async def _get(self, request: Request) -> Response:
        return self._details(self._task(request)[1])

    async def _update(self, request: Request) -> Response:
        _, task, actor = self._found(request)
        self._platform.tasks.change(task, actor, await body_object(request))
        return self._details(task)

    async def _delete(self, request: Request) -> Response:
        self._platform.tasks.delete(self._task(request)[1])
        return Response(status_code=204)

    async def _get_input(self, request: Request) -> Response:
        return json_response(self._task(request)[1].input or {})

    async def _update_input(self, request: Request) -> Response:
        _, task, actor = self._found(request)
        self._platform.tasks.change(task, actor, {"input": await body_object(request)})
        return json_response(task.input)

    async def _start(self, request: Request) -> Response:
        """Start the task: input and options of the request replace the saved ones."""
        platform = self._platform
        user, task, actor = self._found(request)
        given = await query.body_bytes(request)
        options = StartOptions.of(request).over(task.options)
        body, content_type = merged_input(task, given, request.headers.get("content-type", ""))
        start = Start(actor, user, options, body, content_type, task_id=task.id)
        run = start_run(platform, StartedBy.of(request, user), start)
        ended = await platform.supervisor.wait(run, query.wait_seconds(request))
        return data_response(platform.runs.details(ended), 201)

    def _found(self, request: Request) -> tuple[User, SavedTask, Actor]:
        user, task = self._task(request)
        return user, task, self._platform.catalogue.find(task.actor_id, user)

    def _task(self, request: Request) -> tuple[User, SavedTask]:
        """Find the caller and the task, also a damaged task or one whose Actor was removed."""
        user = self._platform.users.caller(request)
        return user, self._platform.tasks.find(request.path_params["task_id"], user.id, user.username)

    def _details(self, task: SavedTask, status: int = 200) -> Response:
        return data_response(task.details(self._platform.runs.count_of_task(task.id)), status)

    def _listed(self, task: SavedTask) -> JsonObject:
        details = task.details(self._platform.runs.count_of_task(task.id))
        actor = self._platform.catalogue.by_id(task.actor_id)
        names = {"actName": actor.name, "actUsername": actor.username} if actor is not None else {}
        return {**{key: details[key] for key in _LISTED}, **names}


class ScheduleRoutes:
    """`/schedules`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def routes(self) -> list[Route]:
        """Return the routes to add to the application."""
        one = "/v2/schedules/{schedule_id}"
        return [
            Route("/v2/schedules", self._list, methods=["GET"]),
            Route("/v2/schedules", self._create, methods=["POST"]),
            Route(one, self._get, methods=["GET"]),
            Route(one, self._update, methods=["PUT"]),
            Route(one, self._delete, methods=["DELETE"]),
        ]

    async def _list(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        page = query.page_of(request)
        schedules, total = self._platform.schedules.list(user.id, page)
        return query.page_response([schedule.details() for schedule in schedules], total, page)

    async def _create(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        given = await body_object(request)
        self._check_targets(user, given)
        return self._changed(self._platform.schedules.create(user.id, given), 201)

    async def _get(self, request: Request) -> Response:
        return data_response(self._found(request)[1].details())

    async def _update(self, request: Request) -> Response:
        user, schedule = self._found(request)
        given = await body_object(request)
        self._check_targets(user, given)
        self._platform.schedules.change(schedule, given)
        return self._changed(schedule)

    async def _delete(self, request: Request) -> Response:
        self._platform.schedules.delete(self._found(request)[1])
        return Response(status_code=204)

    def _found(self, request: Request) -> tuple[User, Schedule]:
        user = self._platform.users.caller(request)
        return user, self._platform.schedules.find(request.path_params["schedule_id"], user.id, user.username)

    def _changed(self, schedule: Schedule, status: int = 200) -> Response:
        self._platform.schedules_changed.set()
        return data_response(schedule.details(), status)

    def _check_targets(self, user: User, given: dict[str, object]) -> None:
        """Raise `ApiError` 404 for an action on an Actor or task that the user cannot see."""
        for action in checked_actions(given["actions"]) if given.get("actions") is not None else []:
            if action["type"] == RUN_TASK:
                self._platform.tasks.find(str(action["actorTaskId"]), user.id, user.username)
            else:
                self._platform.catalogue.find(str(action["actorId"]), user)
