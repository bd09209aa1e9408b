"""Routes of request queues: their requests, the head, the locks."""

from __future__ import annotations

import sqlite3
from typing import cast

import orjson
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from outlast.deploy.local.sandbox.formats import ApiError, JsonObject, iso
from outlast.deploy.local.sandbox.http.query import body_bytes, body_object, data_response, flag, integer, names
from outlast.deploy.local.sandbox.http.storages import StorageRoutes, path_text
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.request_queues import request_id_of

_DEFAULT_HEAD = 100
_MAX_PAGE = 10_000


class RequestQueueRoutes:
    """`/request-queues`, and the default queue of a run."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._queues = platform.queues
        self._storages = StorageRoutes(platform, "request-queue", self._described, platform.queues.remove)

    def routes(self) -> list[Route]:
        """Return the routes to add to the application."""
        found = self._storages.routes()
        for prefix in self._storages.prefixes:
            requests, one = f"{prefix}/requests", f"{prefix}/requests/{{request_id}}"
            found += [
                Route(f"{prefix}/head", self._head, methods=["GET"]),
                Route(f"{prefix}/head/lock", self._lock_head, methods=["POST"]),
                Route(requests, self._list, methods=["GET"]),
                Route(requests, self._add, methods=["POST"]),
                Route(f"{requests}/batch", self._add_many, methods=["POST"]),
                Route(f"{requests}/batch", self._delete_many, methods=["DELETE"]),
                Route(f"{requests}/unlock", self._unlock, methods=["POST"]),
                Route(one, self._get, methods=["GET"]),
                Route(one, self._update, methods=["PUT"]),
                Route(one, self._delete, methods=["DELETE"]),
                Route(f"{one}/lock", self._prolong, methods=["PUT"]),
                Route(f"{one}/lock", self._release, methods=["DELETE"]),
            ]
        return found

    def _described(self, row: sqlite3.Row) -> JsonObject:
        total, handled = self._queues.counts(row["id"])
        return {
            "totalRequestCount": total,
            "handledRequestCount": handled,
            "pendingRequestCount": total - handled,
            "hadMultipleClients": self._queues.had_multiple_clients(row["id"]),
            "stats": {"readCount": 0, "writeCount": total, "deleteCount": 0, "headItemReadCount": 0, "storageBytes": 0},
        }

    def _open(self, request: Request) -> tuple[sqlite3.Row, str]:
        """Return the queue that the path names, and the client's key, which is recorded."""
        _, row = self._storages.row(request)
        client_key = request.query_params.get("clientKey", "")
        self._queues.add_client(row["id"], client_key)
        return row, client_key

    async def _head(self, request: Request) -> Response:
        row, _ = self._open(request)
        limit = integer(request, "limit", _DEFAULT_HEAD, maximum=1000)
        return data_response({**self._about(row, limit), "items": self._queues.head(row["id"], limit)})

    async def _lock_head(self, request: Request) -> Response:
        row, client_key = self._open(request)
        limit, lock_seconds = integer(request, "limit", 25, maximum=25), integer(request, "lockSecs", 60)
        items = self._queues.lock_head(row["id"], limit, lock_seconds, client_key)
        return data_response(
            {
                **self._about(row, limit),
                "lockSecs": lock_seconds,
                "clientKey": client_key or None,
                "queueHasLockedRequests": self._queues.has_locks(row["id"]),
                "items": items,
            }
        )

    def _about(self, row: sqlite3.Row, limit: int) -> JsonObject:
        return {
            "limit": limit,
            "queueModifiedAt": iso(row["modified_at"]),
            "hadMultipleClients": self._queues.had_multiple_clients(row["id"]),
        }

    async def _list(self, request: Request) -> Response:
        row, _ = self._open(request)
        limit = integer(request, "limit", 1000, 1, _MAX_PAGE)
        cursor = request.query_params.get("cursor") or request.query_params.get("exclusiveStartId", "")
        found = self._queues.list(row["id"], cursor, limit + 1, names(request, "filter"))
        items = found[:limit]
        return data_response(
            {
                "items": items,
                "limit": limit,
                "cursor": cursor or None,
                "nextCursor": items[-1]["id"] if len(found) > limit else None,
            }
        )

    async def _add(self, request: Request) -> Response:
        row, _ = self._open(request)
        added = self._queues.add(row["id"], await body_object(request), flag(request, "forefront"))
        self._platform.storages.touch(row["id"])
        return data_response(added, 201)

    async def _add_many(self, request: Request) -> Response:
        row, _ = self._open(request)
        result = self._queues.add_many(row["id"], await _body_list(request), flag(request, "forefront"))
        self._platform.storages.touch(row["id"])
        return data_response(result, 201)

    async def _delete_many(self, request: Request) -> Response:
        row, _ = self._open(request)
        processed: list[JsonObject] = []
        for entry in await _body_list(request):
            request_id = str(entry.get("id") or request_id_of(str(entry.get("uniqueKey", ""))))
            if self._queues.delete(row["id"], request_id):
                processed.append({"id": request_id, **entry})
        return data_response({"processedRequests": processed, "unprocessedRequests": []})

    async def _unlock(self, request: Request) -> Response:
        row, client_key = self._open(request)
        return data_response({"unlockedCount": self._queues.release_all(row["id"], client_key)})

    async def _get(self, request: Request) -> Response:
        row, _ = self._open(request)
        return data_response(self._queues.get(row["id"], path_text(request, "request_id")))

    async def _update(self, request: Request) -> Response:
        row, _ = self._open(request)
        document = {**await body_object(request), "id": path_text(request, "request_id")}
        updated = self._queues.update(row["id"], document, flag(request, "forefront"))
        self._platform.storages.touch(row["id"])
        return data_response(updated)

    async def _delete(self, request: Request) -> Response:
        row, _ = self._open(request)
        self._queues.delete(row["id"], path_text(request, "request_id"))
        return Response(status_code=204)

    async def _prolong(self, request: Request) -> Response:
        row, client_key = self._open(request)
        request_id, seconds = path_text(request, "request_id"), integer(request, "lockSecs", 60)
        until = self._queues.prolong_lock(row["id"], request_id, seconds, client_key, flag(request, "forefront"))
        return data_response({"lockExpiresAt": iso(until)})

    async def _release(self, request: Request) -> Response:
        row, client_key = self._open(request)
        request_id = path_text(request, "request_id")
        self._queues.release_lock(row["id"], request_id, client_key, flag(request, "forefront"))
        return Response(status_code=204)


async def _body_list(request: Request) -> list[JsonObject]:
    try:
        value: object = orjson.loads(await body_bytes(request))
    except orjson.JSONDecodeError as error:
        raise ApiError(400, "invalid-request", f"The body is not valid JSON: {error}") from error
    if not isinstance(value, list):
        raise ApiError(400, "invalid-request", "The body must be an array of requests")
    return cast("list[JsonObject]", value)
