"""`notifications/resources/updated`: to subscribers (2025-11-25) and to `subscriptions/listen` streams (2026-07-28)."""

import logging
from collections.abc import AsyncIterator
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from outlast.api.errors import ApiError
from outlast.api.mcp.connections import Client, Connections
from outlast.api.mcp.protocol.versions import Context, require_legacy
from outlast.api.mcp.resources.resource_methods import ResourceMethods
from outlast.api.mcp.resources.row_resources import RowResources, RowsUri
from outlast.api.mcp.resources.task_resources import TaskResources, task_id_of
from outlast.api.mcp.subscriptions.session_watchers import count_watchers, start_watcher, stop_watcher

log = logging.getLogger("outlast.mcp")

MAX_SUBSCRIPTIONS = 100
"""Resources that one session, or one stream, can subscribe to."""
_KEY_PREFIX = "resource "


class ResourceUpdates:
    """Subscriptions to resources. Only tasks and their rows change: one to any other resource sends nothing."""

    def __init__(
        self, connections: Connections, resources: ResourceMethods, tasks: TaskResources, rows: RowResources
    ) -> None:
        """Watch `tasks` and `rows`; `resources` knows which resources exist."""
        self._connections = connections
        self._resources = resources
        self._tasks = tasks
        self._rows = rows

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> dict[str, Any]:
        """`resources/subscribe`. Raises -32002 for an unknown resource, -32602 above 100 subscriptions."""
        require_legacy(ctx)
        uri, client = str(params.uri), await self._connections.client(ctx)
        await self._resources.require(ctx, client, uri)
        if count_watchers(ctx, _KEY_PREFIX) >= MAX_SUBSCRIPTIONS:
            raise MCPError(INVALID_PARAMS, f"A session can subscribe to at most {MAX_SUBSCRIPTIONS} resources.")
        changes = self._changes(client, uri)
        if changes is not None:
            notifying = self._notify_session(ctx, uri, changes)
            start_watcher(ctx, client.principal, _KEY_PREFIX + uri, notifying)
        return {}

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> dict[str, Any]:
        """`resources/unsubscribe`. Does nothing for a resource without a subscription."""
        require_legacy(ctx)
        stop_watcher(ctx, _KEY_PREFIX + str(params.uri))
        return {}

    async def existing(self, ctx: Context, client: Client, uris: list[str] | None) -> list[str]:
        """Those of the first 100 `uris` that name a resource of this client."""
        found: list[str] = []
        for uri in dict.fromkeys((uris or [])[:MAX_SUBSCRIPTIONS]):
            try:
                await self._resources.require(ctx, client, uri)
            except MCPError:
                continue
            found.append(uri)
        return found

    async def notify_stream(self, ctx: Context, client: Client, uri: str, meta: dict[str, Any]) -> None:
        """Notify the stream of `ctx` of each change of the resource, until the resource can no longer change."""
        changes = self._changes(client, uri)
        if changes is None:
            return
        async for _ in changes:
            params = types.ResourceUpdatedNotificationParams(uri=uri, _meta=cast(Any, meta))
            updated = types.ResourceUpdatedNotification(params=params)
            await ctx.session.send_notification(updated, related_request_id=ctx.request_id)

    def _changes(self, client: Client, uri: str) -> AsyncIterator[None] | None:
        """The changes of the resource from now on; None for one that does not change."""
        if (rows := RowsUri.parse(uri)) is not None:
            return self._rows.changes(client, rows)
        task_id = task_id_of(uri)
        return self._tasks.changes(client, task_id) if task_id is not None else None

    async def _notify_session(self, ctx: Context, uri: str, changes: AsyncIterator[None]) -> None:
        try:
            async for _ in changes:
                await ctx.session.send_resource_updated(uri)
        except ApiError as error:
            log.info("Stopped sending updates of %s: %s", uri, error)
        except Exception as error:  # noqa: BLE001  # a closed transport raises exceptions of many types
            log.debug("The session that subscribed to %s has ended: %s", uri, error)
