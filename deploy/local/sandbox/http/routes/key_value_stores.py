"""Key-value stores: keys and records."""

from __future__ import annotations

import sqlite3
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import FileResponse, Response
from starlette.routing import Route

from outlast.deploy.local.sandbox.http.errors import ApiError, not_found
from outlast.deploy.local.sandbox.http.query import body_chunks, data_response, flag, integer
from outlast.deploy.local.sandbox.http.routes.storages import StorageRoutes, path_text
from outlast.deploy.local.sandbox.json_object import JsonObject
from outlast.deploy.local.sandbox.platform import Platform


class KeyValueStoreRoutes:
    """`/key-value-stores`, and the default store of a run."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._storages = StorageRoutes(platform, "key-value-store", self._described, platform.stores.remove)

    def routes(self) -> list[Route]:
        """The routes to add to the application."""
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
        """The store of a signed link: anyone who has the link may read the record. None for any other request."""
        signature, store_id = request.query_params.get("signature"), request.path_params.get("storage_id")
        if signature is None or store_id is None:
            return None
        is_right = self._platform.links.fits(store_id, path_text(request, "key"), signature)
        return self._platform.storages.any("key-value-store", store_id) if is_right else None

    async def _put(self, request: Request) -> Response:
        _, row = self._storages.row(request)
        content_type = request.headers.get("content-type") or "application/octet-stream"
        await self._platform.stores.put_stream(row["id"], path_text(request, "key"), content_type, body_chunks(request))
        return Response(status_code=201)

    async def _delete(self, request: Request) -> Response:
        _, row = self._storages.row(request)
        self._platform.stores.delete(row["id"], path_text(request, "key"))
        return Response(status_code=204)
