"""Routes that all three kinds of storages have: create, list, get, update, delete."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.deploy.local.sandbox.accounts.users import User
from outlast.deploy.local.sandbox.http.errors import not_found
from outlast.deploy.local.sandbox.http.query import body_object, data_response, flag, integer, page
from outlast.deploy.local.sandbox.json_object import JsonObject, parse
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.storages.storage_table import Kind
from outlast.deploy.local.sandbox.times_and_ids import iso, now

# Paths of a run below which its default storages are found.
RUN_PREFIXES = (
    "/v2/actor-runs/{run_id}",
    "/v2/acts/{actor_id}/runs/last",
    "/v2/actors/{actor_id}/runs/last",
)


@dataclass(frozen=True, slots=True)
class StorageRoutes:
    """Routes of one kind of storage. `describe` adds the fields of this kind; `remove` deletes the content."""

    platform: Platform
    kind: Kind
    describe: Callable[[sqlite3.Row], JsonObject]
    remove: Callable[[str], None]

    @property
    def prefixes(self) -> tuple[str, ...]:
        """All paths of one storage."""
        return (f"/v2/{self.kind}s/{{storage_id}}", *(f"{prefix}/{self.kind}" for prefix in RUN_PREFIXES))

    def routes(self) -> list[Route]:
        """The routes to add to the application."""
        collection = f"/v2/{self.kind}s"
        found = [
            Route(collection, self._list, methods=["GET"]),
            Route(collection, self._create, methods=["POST"]),
        ]
        for prefix in self.prefixes:
            found += [
                Route(prefix, self._get, methods=["GET"]),
                Route(prefix, self._update, methods=["PUT"]),
                Route(prefix, self._delete, methods=["DELETE"]),
            ]
        return found

    def row(self, request: Request) -> tuple[User, sqlite3.Row]:
        """The caller and the storage that the path names. Raises `ApiError` 401, 404."""
        user = self.platform.users.caller(request)
        storage_id = self.platform.storage_id_of(request, user, self.kind)
        return user, self.platform.storages.get(self.kind, storage_id, user.id)

    def _shown(self, row: sqlite3.Row, username: str) -> JsonObject:
        return {
            "id": row["id"],
            "name": row["name"],
            "title": row["title"],
            "userId": row["user_id"],
            "username": username,
            "createdAt": iso(row["created_at"]),
            "modifiedAt": iso(row["modified_at"]),
            "accessedAt": iso(row["accessed_at"]),
            "actId": row["actor_id"],
            "actRunId": row["run_id"],
            "generalAccess": row["general_access"] or "FOLLOW_USER_SETTING",
            "consoleUrl": f"{self.platform.settings.base_url}/v2/{self.kind}s/{row['id']}",
            **self.describe(row),
        }

    async def _list(self, request: Request) -> Response:
        user = self.platform.users.caller(request)
        offset, limit = integer(request, "offset", 0), integer(request, "limit", 1000, 1, 1000)
        desc, unnamed = flag(request, "desc"), flag(request, "unnamed")
        rows, total = self.platform.storages.list(
            self.kind, user.id, offset=offset, limit=limit, desc=desc, unnamed=unnamed
        )
        # Both official clients expect a string here, also for a storage without a name.
        items = [{**self._shown(row, user.username), "name": row["name"] or ""} for row in rows]
        return data_response({**page(items, total, offset, limit, desc), "unnamed": unnamed})

    async def _create(self, request: Request) -> Response:
        user = self.platform.users.caller(request)
        name = request.query_params.get("name")
        row, is_new = self.platform.storages.get_or_create(self.kind, user.id, name)
        return data_response(self._shown(row, user.username), 201 if is_new else 200)

    async def _get(self, request: Request) -> Response:
        user, row = self.row(request)
        shown = self._shown(row, user.username)
        if self.kind == "dataset":
            shown = self._with_late_count(request, row, shown)
        return data_response(shown)

    def _with_late_count(self, request: Request, row: sqlite3.Row, shown: JsonObject) -> JsonObject:
        fault = self.platform.faults.state(
            "late_item_count", request.method, request.url.path, request.headers.get("user-agent", "")
        )
        if fault is None or row["modified_at"] + float(fault.options.get("seconds", 2)) < now():
            return shown
        return {**shown, "itemCount": 0, "cleanItemCount": 0}

    async def _update(self, request: Request) -> Response:
        user, row = self.row(request)
        self.platform.storages.update(self.kind, row, await body_object(request))
        return data_response(self._shown(self.platform.storages.get(self.kind, row["id"], user.id), user.username))

    async def _delete(self, request: Request) -> Response:
        _, row = self.row(request)
        self.platform.storages.delete(row["id"])
        self.remove(row["id"])
        return Response(status_code=204)


def fields_of(row: sqlite3.Row) -> list[str]:
    """The top-level fields of a dataset's items."""
    fields: list[str] = parse(row["fields"].encode())
    return fields


def path_text(request: Request, name: str) -> str:
    """A parameter of the path. Raises `ApiError` 404 when it is empty."""
    value = str(request.path_params.get(name, ""))
    if not value:
        raise not_found("Record")
    return value
