"""Routes of saved Actor tasks (create, get, list, update, delete, input, runs) and of schedules."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.deploy.local.sandbox.accounts import User
from outlast.deploy.local.sandbox.actors import Actor
from outlast.deploy.local.sandbox.formats import ApiError, JsonObject
from outlast.deploy.local.sandbox.http import query
from outlast.deploy.local.sandbox.http.query import body_object, data_response, json_response
from outlast.deploy.local.sandbox.http.starts import Start, StartedBy, StartOptions, start_run
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.saved_tasks import SavedTask, merged_input
from outlast.deploy.local.sandbox.schedules import RUN_TASK, Schedule, checked_actions

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
