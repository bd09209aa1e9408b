"""Datasets: their items, in ranges and in several formats."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from outlast.deploy.local.sandbox.http.errors import invalid_parameter
from outlast.deploy.local.sandbox.http.query import body_bytes, data_response, flag, integer, json_response
from outlast.deploy.local.sandbox.http.routes.storages import StorageRoutes, fields_of
from outlast.deploy.local.sandbox.json_object import JsonObject
from outlast.deploy.local.sandbox.platform import Platform
from outlast.deploy.local.sandbox.storages.dataset_files import INDEX_STEP
from outlast.deploy.local.sandbox.storages.dataset_formats import (
    CONTENT_TYPES,
    csv_columns,
    csv_pieces,
    json_pieces,
    jsonl_pieces,
)
from outlast.deploy.local.sandbox.storages.dataset_views import View
from outlast.deploy.local.sandbox.storages.datasets import NO_LIMIT, Part, in_thread

_SMALL_BYTES = 256 * 1024


class DatasetRoutes:
    """`/datasets`, and the default dataset of a run."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform
        self._storages = StorageRoutes(platform, "dataset", _described, platform.datasets.remove)

    def routes(self) -> list[Route]:
        """The routes to add to the application."""
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
        await self._platform.datasets.push(row["id"], await body_bytes(request))
        return json_response({}, 201)

    async def _items(self, request: Request) -> Response:
        _, row = self._storages.row(request)
        part = Part(
            dataset_id=row["id"],
            total=self._rows_shown(request, row),
            offset=integer(request, "offset", 0),
            limit=integer(request, "limit", NO_LIMIT) or NO_LIMIT,
            desc=flag(request, "desc"),
        )
        view = self._view(request, row)
        format_name = request.query_params.get("format", "json").lower()
        if format_name not in CONTENT_TYPES:
            raise invalid_parameter(f"The sandbox writes {', '.join(CONTENT_TYPES)}, not '{format_name}'")
        headers = _headers(part) | _disposition(request, row["id"], format_name)
        content_type = CONTENT_TYPES[format_name]
        if request.method == "HEAD":
            return Response(headers=headers, media_type=content_type)
        pieces = self._pieces(request, part, view, format_name)
        if _expected_bytes(row, part) <= _SMALL_BYTES:
            return Response(b"".join(pieces), headers=headers, media_type=content_type)
        return StreamingResponse(in_thread(pieces), headers=headers, media_type=content_type)

    def _rows_shown(self, request: Request, row: sqlite3.Row) -> int:
        return self._platform.faults.rows_shown(
            request.method,
            request.url.path,
            request.headers.get("user-agent", ""),
            rows=row["item_count"],
            changed_at=row["modified_at"],
        )

    def _view(self, request: Request, row: sqlite3.Row) -> View:
        name = request.query_params.get("view")
        if not name:
            return View.of(request)
        actor = self._platform.catalogue.by_id(row["actor_id"] or "")
        storages: JsonObject = actor.definition["storages"] if actor else {}
        schema: JsonObject = storages.get("dataset") or {}
        transformation = schema.get("views", {}).get(name, {}).get("transformation")
        if transformation is None:
            raise invalid_parameter(f"The dataset has no view '{name}'")
        return View(
            fields=tuple(transformation.get("fields", ())),
            omit=tuple(transformation.get("omit", ())),
            unwind=tuple(transformation.get("unwind", ())),
            flatten=tuple(transformation.get("flatten", ())),
        )

    def _pieces(self, request: Request, part: Part, view: View, format_name: str) -> Iterator[bytes]:
        blocks = self._platform.datasets.blocks
        match format_name:
            case "json":
                return json_pieces(blocks(part), view)
            case "jsonl":
                return jsonl_pieces(blocks(part), view)
            case _:
                return self._csv(request, part, view)

    def _csv(self, request: Request, part: Part, view: View) -> Iterator[bytes]:
        # A generator, so that both passes over the rows run where the pieces are made: in a thread for large parts.
        blocks = self._platform.datasets.blocks
        yield from csv_pieces(
            blocks(part),
            view,
            csv_columns(blocks(part), view),
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
    """An estimate of the bytes to read for a part. Small parts are read without a thread."""
    return (part.count + INDEX_STEP) * (row["size_bytes"] // max(1, part.total))


def _headers(part: Part) -> dict[str, str]:
    return {
        "X-Apify-Pagination-Total": str(part.total),
        "X-Apify-Pagination-Offset": str(part.offset),
        "X-Apify-Pagination-Count": str(part.count),
        "X-Apify-Pagination-Limit": str(part.limit),
        "X-Apify-Pagination-Desc": "true" if part.desc else "false",
    }


def _disposition(request: Request, dataset_id: str, extension: str) -> dict[str, str]:
    if not flag(request, "attachment"):
        return {}
    return {"Content-Disposition": f'attachment; filename="dataset_{dataset_id}.{extension}"'}
