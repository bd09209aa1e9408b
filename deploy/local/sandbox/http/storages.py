"""Routes of storages: those of all kinds (create, list, get, update, delete), of datasets and of key-value stores."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse, Response, StreamingResponse
from starlette.routing import Route

from outlast.deploy.local.sandbox.accounts import User
from outlast.deploy.local.sandbox.formats import ApiError, JsonObject, invalid_parameter, iso, not_found, now, parse
from outlast.deploy.local.sandbox.http import dataset_views as views
from outlast.deploy.local.sandbox.http import query
from outlast.deploy.local.sandbox.http.query import data_response, flag, integer
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.storages import INDEX_STEP, NO_LIMIT, Kind, Part, in_thread

RUN_PREFIXES = ("/v2/actor-runs/{run_id}", "/v2/acts/{actor_id}/runs/last", "/v2/actors/{actor_id}/runs/last")
"""Paths of a run. Its default storages are below them."""
_SMALL_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class StorageRoutes:
    """Routes of one kind of storage. `describe` adds the fields of this kind; `remove` deletes the content."""

    platform: Platform
    kind: Kind
    describe: Callable[[sqlite3.Row], JsonObject]
    remove: Callable[[str], None]

    @property
    def prefixes(self) -> tuple[str, ...]:
        """Paths of one storage."""
        return (f"/v2/{self.kind}s/{{storage_id}}", *(f"{prefix}/{self.kind}" for prefix in RUN_PREFIXES))

    def routes(self) -> list[Route]:
        """Return the routes to add to the application."""
        collection = f"/v2/{self.kind}s"
        found = [Route(collection, self._list, methods=["GET"]), Route(collection, self._create, methods=["POST"])]
        for prefix in self.prefixes:
            found += [
                Route(prefix, self._get, methods=["GET"]),
                Route(prefix, self._update, methods=["PUT"]),
                Route(prefix, self._delete, methods=["DELETE"]),
            ]
        return found

    def row(self, request: Request) -> tuple[User, sqlite3.Row]:
        """Return the caller and the storage that the path names. Raises `ApiError` 401 or 404."""
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
        page, unnamed = query.page_of(request), flag(request, "unnamed")
        rows, total = self.platform.storages.list(self.kind, user.id, page, unnamed=unnamed)
        # Both official clients expect a string here, also for a storage without a name.
        items = [{**self._shown(row, user.username), "name": row["name"] or ""} for row in rows]
        return query.page_response(items, total, page, unnamed=unnamed)

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
        fault = self.platform.faults.of_request("late_item_count", request)
        if fault is None or row["modified_at"] + float(fault.options.get("seconds", 2)) < now():
            return shown
        return {**shown, "itemCount": 0, "cleanItemCount": 0}

    async def _update(self, request: Request) -> Response:
        user, row = self.row(request)
        self.platform.storages.update(self.kind, row, await query.body_object(request))
        return data_response(self._shown(self.platform.storages.get(self.kind, row["id"], user.id), user.username))

    async def _delete(self, request: Request) -> Response:
        _, row = self.row(request)
        self.platform.storages.delete(row["id"])
        self.remove(row["id"])
        return Response(status_code=204)


def fields_of(row: sqlite3.Row) -> list[str]:
    """Return the top-level fields of a dataset's items."""
    fields: list[str] = parse(row["fields"].encode())
    return fields


def path_text(request: Request, name: str) -> str:
    """Return a parameter of the path. Raises `ApiError` 404 if it is empty."""
    value = str(request.path_params.get(name, ""))
    if not value:
        raise not_found("Record")
    return value


class DatasetRoutes:
    """`/datasets`, and the default dataset of a run."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._storages = StorageRoutes(platform, "dataset", _described, platform.datasets.remove)

    def routes(self) -> list[Route]:
        """Return the routes to add to the application."""
        found = self._storages.routes()
        for prefix in self._storages.prefixes:
            found += [
                Route(f"{prefix}/items", self._items, methods=["GET", "HEAD"]),
                Route(f"{prefix}/items", self._push, methods=["POST"]),
                Route(f"{prefix}/statistics", self._statistics, methods=["GET"]),
            ]
        return found

    async def _push(self, request: Request) -> Response:
        _, row = self._storages.row(request)
        await self._platform.datasets.push(row["id"], await query.body_bytes(request))
        return query.json_response({}, 201)

    async def _items(self, request: Request) -> Response:
        _, row = self._storages.row(request)
        part = Part(
            dataset_id=row["id"],
            total=self._platform.faults.rows_shown(request, rows=row["item_count"], changed_at=row["modified_at"]),
            offset=integer(request, "offset", 0),
            limit=integer(request, "limit", NO_LIMIT) or NO_LIMIT,
            desc=flag(request, "desc"),
        )
        view = self._view(request, row)
        format_name = request.query_params.get("format", "json").lower()
        if format_name not in views.CONTENT_TYPES:
            raise invalid_parameter(f"The sandbox writes {', '.join(views.CONTENT_TYPES)}, not '{format_name}'")
        headers, content_type = _headers(part), views.CONTENT_TYPES[format_name]
        if flag(request, "attachment"):
            headers["Content-Disposition"] = f'attachment; filename="dataset_{row["id"]}.{format_name}"'
        if request.method == "HEAD":
            return Response(headers=headers, media_type=content_type)
        pieces = self._pieces(request, part, view, format_name)
        if _expected_bytes(row, part) <= _SMALL_BYTES:
            return Response(b"".join(pieces), headers=headers, media_type=content_type)
        return StreamingResponse(in_thread(pieces), headers=headers, media_type=content_type)

    def _view(self, request: Request, row: sqlite3.Row) -> views.View:
        name = request.query_params.get("view")
        if not name:
            return views.View.of(request)
        actor = self._platform.catalogue.by_id(row["actor_id"] or "")
        storages: JsonObject = actor.definition["storages"] if actor else {}
        schema: JsonObject = storages.get("dataset") or {}
        transformation = schema.get("views", {}).get(name, {}).get("transformation")
        if transformation is None:
            raise invalid_parameter(f"The dataset has no view '{name}'")
        fields, omit, unwind, flatten = (tuple(transformation.get(step, ())) for step in views.STEPS)
        return views.View(fields, omit, unwind, flatten)

    def _pieces(self, request: Request, part: Part, view: views.View, format_name: str) -> Iterator[bytes]:
        # A generator, so that both passes of CSV run where the pieces are made: in a thread for large parts.
        blocks = self._platform.datasets.blocks
        match format_name:
            case "json":
                yield from views.json_pieces(blocks(part), view)
            case "jsonl":
                yield from views.jsonl_pieces(blocks(part), view)
            case _:
                yield from views.csv_pieces(
                    blocks(part),
                    view,
                    views.csv_columns(blocks(part), view),
                    delimiter=request.query_params.get("delimiter") or ",",
                    bom=flag(request, "bom", default=True),
                    header=not flag(request, "skipHeaderRow"),
                )

    async def _statistics(self, request: Request) -> Response:
        _, row = self._storages.row(request)
        statistics: JsonObject = {field: {} for field in fields_of(row)}
        return data_response({"fieldStatistics": statistics})


def _described(row: sqlite3.Row) -> JsonObject:
    return {
        "itemCount": row["item_count"],
        "cleanItemCount": row["item_count"],
        "fields": fields_of(row),
        "stats": {
            "readCount": 0,
            "writeCount": row["item_count"],
            "storageBytes": row["size_bytes"],
            "inflatedBytes": row["size_bytes"],
        },
    }


def _expected_bytes(row: sqlite3.Row, part: Part) -> int:
    """Estimate the bytes to read for a part. Small parts are read without a thread."""
    return (part.count + INDEX_STEP) * (row["size_bytes"] // max(1, part.total))


def _headers(part: Part) -> dict[str, str]:
    return {
        "X-Apify-Pagination-Total": str(part.total),
        "X-Apify-Pagination-Offset": str(part.offset),
        "X-Apify-Pagination-Count": str(part.count),
        "X-Apify-Pagination-Limit": str(part.limit),
        "X-Apify-Pagination-Desc": "true" if part.desc else "false",
    }


class KeyValueStoreRoutes:
    """`/key-value-stores`, and the default store of a run."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._storages = StorageRoutes(platform, "key-value-store", self._described, platform.stores.remove)

    def routes(self) -> list[Route]:
        """Return the routes to add to the application."""
        found = self._storages.routes()
        for prefix in self._storages.prefixes:
            record = f"{prefix}/records/{{key:path}}"
            found += [
                Route(f"{prefix}/keys", self._keys, methods=["GET"]),
                Route(record, self._get, methods=["GET", "HEAD"]),
                Route(record, self._put, methods=["PUT", "POST"]),
                Route(record, self._delete, methods=["DELETE"]),
            ]
        return found

    def _described(self, row: sqlite3.Row) -> JsonObject:
        size = self._platform.stores.size_bytes(row["id"])
        counts = dict.fromkeys(("readCount", "writeCount", "deleteCount", "listCount"), 0)
        return {
            "urlSigningSecretKey": self._platform.links.key_of(row["id"]),
            "stats": {**counts, "storageBytes": size},
        }

    async def _keys(self, request: Request) -> Response:
        _, row = self._storages.row(request)
        limit = integer(request, "limit", 1000, 1, 1000)
        after, prefix = request.query_params.get("exclusiveStartKey", ""), request.query_params.get("prefix", "")
        found = self._platform.stores.keys(row["id"], after, prefix, limit + 1)
        shown, is_truncated = found[:limit], len(found) > limit
        base = f"{self._platform.settings.base_url}/v2/key-value-stores/{row['id']}/records"
        items = [
            {
                "key": record["key"],
                "size": record["size_bytes"],
                "recordPublicUrl": f"{base}/{quote(record['key'], safe='')}",
            }
            for record in shown
        ]
        return data_response(
            {
                "items": items,
                "count": len(items),
                "limit": limit,
                "exclusiveStartKey": after or None,
                "isTruncated": is_truncated,
                "nextExclusiveStartKey": shown[-1]["key"] if is_truncated else None,
            }
        )

    async def _get(self, request: Request) -> Response:
        row = self._signed_row(request) or self._storages.row(request)[1]
        found = self._platform.stores.get(row["id"], path_text(request, "key"))
        if found is None:
            raise not_found("Record")
        path, record = found
        name = record["key"] if flag(request, "attachment") else None
        if not path.exists():
            raise ApiError(404, "record-not-found", "The content of the record is missing from the sandbox's disk")
        return FileResponse(path, media_type=record["content_type"], filename=name)

    def _signed_row(self, request: Request) -> sqlite3.Row | None:
        """Return the store of a signed link, whose holder may read the record; None for any other request."""
        signature, store_id = request.query_params.get("signature"), request.path_params.get("storage_id")
        if signature is None or store_id is None:
            return None
        is_right = self._platform.links.fits(store_id, path_text(request, "key"), signature)
        return self._platform.storages.any("key-value-store", store_id) if is_right else None

    async def _put(self, request: Request) -> Response:
        _, row = self._storages.row(request)
        content_type = request.headers.get("content-type") or "application/octet-stream"
        chunks = query.body_chunks(request)
        await self._platform.stores.put_stream(row["id"], path_text(request, "key"), content_type, chunks)
        return Response(status_code=201)

    async def _delete(self, request: Request) -> Response:
        _, row = self._storages.row(request)
        self._platform.stores.delete(row["id"], path_text(request, "key"))
        return Response(status_code=204)
