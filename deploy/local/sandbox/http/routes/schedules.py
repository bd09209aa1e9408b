"""Schedules: create, get, list, update, delete."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.deploy.local.sandbox.accounts.users import User
from outlast.deploy.local.sandbox.http.query import body_object, data_response, flag, integer, page
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.schedules.schedule_table import RUN_TASK, Schedule, checked_actions

_MAX_PAGE = 1000


class ScheduleRoutes:
    """`/schedules`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def routes(self) -> list[Route]:
        """The routes to add to the application."""
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
        offset, limit = integer(request, "offset", 0), integer(request, "limit", _MAX_PAGE, 1, _MAX_PAGE)
        desc = flag(request, "desc")
        schedules, total = self._platform.schedules.list(user.id, offset=offset, limit=limit, desc=desc)
        return data_response(page([schedule.details() for schedule in schedules], total, offset, limit, desc))

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
        """Raise `ApiError` 404 for an action on what the user cannot see."""
        for action in checked_actions(given["actions"]) if given.get("actions") is not None else []:
            if action["type"] == RUN_TASK:
                self._platform.tasks.find(str(action["actorTaskId"]), user.id, user.username)
            else:
                self._platform.catalogue.find(str(action["actorId"]), user)
