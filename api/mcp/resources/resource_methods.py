"""`resources/list`, `resources/templates/list`, `resources/read`: tasks, widgets, the platform's, extensions' own."""

import base64
import json
from collections.abc import Sequence
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError

from outlast.api.errors import TaskNotFound
from outlast.api.mcp.connections import Client, Connections
from outlast.api.mcp.dialects.dialect import Dialect
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.protocol.api_errors import with_mcp_errors
from outlast.api.mcp.protocol.platform_addresses import is_web_address
from outlast.api.mcp.protocol.versions import Context, is_modern
from outlast.api.mcp.resources.platform_resources import PlatformResources
from outlast.api.mcp.resources.resource_definitions import Resource
from outlast.api.mcp.resources.row_resources import RowResources, RowsUri, rows_template
from outlast.api.mcp.resources.task_resources import TASK_MIME_TYPE, TaskResources, task_id_of, task_template
from outlast.api.offer.mcp_results import visible_meta
from outlast.workflows.tools.extensions import extension_entries
from outlast.workflows.tools.registry import selection_rules

JsonObject = dict[str, Any]
_DO_NOT_CACHE = {"ttlMs": 0, "cacheScope": "private"}


class ResourceMethods:
    """The handlers of `resources/*`, without subscriptions."""

    def __init__(
        self,
        connections: Connections,
        tasks: TaskResources,
        rows: RowResources,
        platform: PlatformResources,
        widgets: Sequence[Resource] = (),
    ) -> None:
        """Offer `tasks`, their `rows`, `widgets`, what extensions and modes bring, and in some modes what the
        `platform` has.
        """
        self._connections = connections
        self._tasks = tasks
        self._rows = rows
        self._platform = platform
        self._resources = (*widgets, *cast(tuple[Resource, ...], extension_entries("RESOURCES")))

    async def list(self, ctx: Context, _params: types.PaginatedRequestParams | None) -> JsonObject:
        """`resources/list`."""
        client = await self._connections.client(ctx)
        offered = self._offered_to(client)
        return {"resources": [_resource_entry(entry, "uri", client.mode) for entry in offered if not entry.is_template]}

    async def templates(self, ctx: Context, _params: types.PaginatedRequestParams | None) -> JsonObject:
        """`resources/templates/list`."""
        client = await self._connections.client(ctx)
        offered = self._offered_to(client)
        templates = [_resource_entry(entry, "uriTemplate", client.mode) for entry in offered if entry.is_template]
        return {"resourceTemplates": [*self._platform.templates(client), task_template(), rows_template(), *templates]}

    async def read(self, ctx: Context, params: types.ReadResourceRequestParams) -> JsonObject:
        """`resources/read`. Raises -32602 (2025-11-25: -32002) for an unknown resource."""
        uri, client = str(params.uri), await self._connections.client(ctx)
        task_id = task_id_of(uri)
        if task_id is not None:
            return await self._read_task(ctx, client, uri, task_id)
        if (rows := RowsUri.parse(uri)) is not None:
            return await self._read_rows(ctx, client, rows)
        for resource in self._offered_to(client):
            parts = resource.match(uri)
            if parts is not None:
                return {"contents": [_resource_contents(resource, uri, resource.read(parts), client.mode)]}
        dialect = dialect_of(client.mode)
        note = dialect.absent_page(uri) if _shows_apps(client) else None
        if note is not None:
            contents = {"contents": [{"uri": uri, "mimeType": "text/plain", "text": note}]}
            return {**contents, **(_DO_NOT_CACHE if is_modern(ctx) else {})}
        if dialect.addresses and is_web_address(uri):
            contents = await with_mcp_errors(self._platform.read(client, uri))
            return {**contents, **(_DO_NOT_CACHE if is_modern(ctx) else {})}
        raise dialect.unknown_resource(uri, is_modern=is_modern(ctx))

    async def require(self, ctx: Context, client: Client, uri: str) -> None:
        """Raise what `read` raises for an unknown resource."""
        rows = RowsUri.parse(uri)
        task_id = rows.task_id if rows is not None else task_id_of(uri)
        if task_id is not None:
            try:
                await with_mcp_errors(self._tasks.check(client, task_id), except_for=TaskNotFound)
            except TaskNotFound as error:
                raise no_such_resource(ctx, uri) from error
        elif not any(resource.match(uri) is not None for resource in self._offered_to(client)):
            raise no_such_resource(ctx, uri)

    async def _read_task(self, ctx: Context, client: Client, uri: str, task_id: str) -> JsonObject:
        try:
            state = await with_mcp_errors(self._tasks.read(client, task_id), except_for=TaskNotFound)
        except TaskNotFound as error:
            raise dialect_of(client.mode).unknown_resource(uri, is_modern=is_modern(ctx)) from error
        content = {"uri": uri, "mimeType": TASK_MIME_TYPE, "text": json.dumps(state, ensure_ascii=False)}
        return {"contents": [content], **(_DO_NOT_CACHE if is_modern(ctx) else {})}

    async def _read_rows(self, ctx: Context, client: Client, wanted: RowsUri) -> JsonObject:
        try:
            content = await with_mcp_errors(self._rows.read(client, wanted), except_for=TaskNotFound)
        except TaskNotFound as error:
            raise dialect_of(client.mode).unknown_resource(str(wanted), is_modern=is_modern(ctx)) from error
        return {"contents": [content], **(_DO_NOT_CACHE if is_modern(ctx) else {})}

    def _offered_to(self, client: Client) -> tuple[Resource, ...]:
        pays = client.connection.selection.payment
        paid_by = (None, pays.name if pays is not None else None)
        return tuple(
            resource
            for resource in (*dialect_of(client.mode).resources, *self._resources)
            if resource.mode in (None, client.mode)
            and resource.payment in paid_by
            and (not resource.is_app or _shows_apps(client))
        )


def _shows_apps(client: Client) -> bool:
    return selection_rules(client.mode).shows_apps(client.connection.selection)


def no_such_resource(ctx: Context, uri: str) -> MCPError:
    """The error for a URI that does not exist or belongs to another caller: the two look the same."""
    return Dialect().unknown_resource(uri, is_modern=is_modern(ctx))


def _resource_entry(resource: Resource, uri_key: str, mode: str) -> JsonObject:
    """MCP `Resource`, or `ResourceTemplate`."""
    entry: JsonObject = {
        uri_key: resource.uri,
        "name": resource.name,
        **({"title": resource.title} if resource.title else {}),
        "description": resource.description,
        "mimeType": resource.mime_type,
    }
    meta = visible_meta(dict(resource.meta), mode=mode)
    return {**entry, "_meta": meta} if meta else entry


def _resource_contents(resource: Resource, uri: str, body: str | bytes, mode: str) -> JsonObject:
    """MCP `TextResourceContents`, or `BlobResourceContents`."""
    contents: JsonObject = {"uri": uri, "mimeType": resource.mime_type}
    if isinstance(body, bytes):
        contents["blob"] = base64.b64encode(body).decode()
    else:
        contents["text"] = body
    meta = visible_meta(dict(resource.meta), mode=mode)
    return {**contents, "_meta": meta} if meta else contents
