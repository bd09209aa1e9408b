"""Actor tasks. The routes of their runs are in `runs`."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.deploy.local.sandbox.clock import new_id
from outlast.deploy.local.sandbox.http.errors import ApiError
from outlast.deploy.local.sandbox.http.query import (
    JsonObject,
    body_object,
    data_response,
    flag,
    integer,
    json_response,
    page,
)
from outlast.deploy.local.sandbox.platform import Platform

_KEPT = ("options", "input", "title", "description")


class TaskRoutes:
    """`/actor-tasks`."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def routes(self) -> list[Route]:
        """The routes to add to the application."""
        one = "/v2/actor-tasks/{task_id}"
        return [
            Route("/v2/actor-tasks", self._list, methods=["GET"]),
            Route("/v2/actor-tasks", self._create, methods=["POST"]),
            Route(one, self._get, methods=["GET"]),
            Route(one, self._update, methods=["PUT"]),
            Route(one, self._delete, methods=["DELETE"]),
            Route(f"{one}/input", self._get_input, methods=["GET"]),
            Route(f"{one}/input", self._put_input, methods=["PUT"]),
        ]

    async def _list(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        offset, limit, desc = (
            integer(request, "offset", 0),
            integer(request, "limit", 1000, 1, 1000),
            flag(request, "desc"),
        )
        tasks, total = self._platform.tasks.list(user, offset=offset, limit=limit, desc=desc)
        items = [self._list_item(task.shown(user.username)) for task in tasks]
        return data_response(page(items, total, offset, limit, desc))

    async def _create(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        body = await body_object(request)
        if not body.get("actId"):
            raise ApiError(400, "invalid-input", "'actId' is required")
        actor = self._platform.catalogue.find(str(body["actId"]), user)
        name = str(body.get("name") or f"task-{new_id().lower()}")
        task = self._platform.tasks.create(user, name, actor.id, {key: body[key] for key in _KEPT if key in body})
        return data_response(task.shown(user.username), 201)

    async def _get(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        return data_response(self._platform.tasks.get(request.path_params["task_id"], user).shown(user.username))

    async def _update(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        task = self._platform.tasks.get(request.path_params["task_id"], user)
        changes = await body_object(request)
        kept = {key: changes[key] for key in (*_KEPT, "name") if key in changes}
        return data_response(self._platform.tasks.update(task, user, kept).shown(user.username))

    async def _delete(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        self._platform.tasks.delete(self._platform.tasks.get(request.path_params["task_id"], user))
        return Response(status_code=204)

    async def _get_input(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        task = self._platform.tasks.get(request.path_params["task_id"], user)
        return json_response(task.document.get("input") or {})

    async def _put_input(self, request: Request) -> Response:
        user = self._platform.users.caller(request)
        task = self._platform.tasks.get(request.path_params["task_id"], user)
        updated = self._platform.tasks.update(task, user, {"input": await body_object(request)})
        return json_response(updated.document["input"])

    def _list_item(self, shown: JsonObject) -> JsonObject:
        actor = self._platform.catalogue.by_id(shown["actId"])
        kept = ("id", "userId", "actId", "name", "username", "createdAt", "modifiedAt", "stats")
        return {
            **{key: shown[key] for key in kept},
            "actName": actor.name if actor else None,
            "actUsername": actor.username if actor else None,
        }
