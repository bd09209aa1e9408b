"""Telling clients that a resource has changed: subscribers (2025-11-25) and listeners (2026-07-28)."""

import logging
from typing import Any, cast

import mcp_types as types
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS

from outlast.api.errors import ApiError
from outlast.api.mcp.connections import Client, Connections
from outlast.api.mcp.protocol.eras import Context, require_legacy
from outlast.api.mcp.resources.resources import Resources
from outlast.api.mcp.resources.task_resources import TaskResources, task_of
from outlast.api.mcp.subscriptions.followers import follow, followed, unfollow

log = logging.getLogger("outlast.mcp")

MAX_SUBSCRIPTIONS = 100
"""Resources that one session, or one stream, is told of."""
_KEY = "resource "


class ResourceUpdates:
    """Only tasks change; any other resource may be subscribed to as well, and never does."""

    def __init__(self, connections: Connections, resources: Resources, tasks: TaskResources) -> None:
        """Watch `tasks`; `resources` says which there are."""
        self._connections = connections
        self._resources = resources
        self._tasks = tasks

    async def subscribe(self, ctx: Context, params: types.SubscribeRequestParams) -> dict[str, Any]:
        """`resources/subscribe`. Raises -32002 for an unknown resource, -32602 for one too many."""
        require_legacy(ctx)
        uri, client = str(params.uri), await self._connections.client(ctx)
        await self._resources.require(ctx, client, uri)
        if followed(ctx, _KEY) >= MAX_SUBSCRIPTIONS:
            raise MCPError(INVALID_PARAMS, f"A session subscribes to at most {MAX_SUBSCRIPTIONS} resources.")
        task_id = task_of(uri)
        if task_id is not None:
            follow(ctx, _KEY + uri, self._tell_session(ctx, client, uri, task_id))
        return {}

    async def unsubscribe(self, ctx: Context, params: types.UnsubscribeRequestParams) -> dict[str, Any]:
        """`resources/unsubscribe`. What was not subscribed to is left alone."""
        require_legacy(ctx)
        unfollow(ctx, _KEY + str(params.uri))
        return {}

    async def known(self, ctx: Context, client: Client, uris: list[str] | None) -> list[str]:
        """Those of the URIs that a stream can be told of."""
        found: list[str] = []
        for uri in dict.fromkeys((uris or [])[:MAX_SUBSCRIPTIONS]):
            try:
                await self._resources.require(ctx, client, uri)
            except MCPError:
                continue
            found.append(uri)
        return found

    async def push(self, ctx: Context, client: Client, uri: str, meta: dict[str, Any]) -> None:
        """Tell a stream each time the resource changes, until it cannot any more."""
        task_id = task_of(uri)
        if task_id is None:
            return
        async for _ in self._tasks.changes(client, task_id):
            params = types.ResourceUpdatedNotificationParams(uri=uri, _meta=cast(Any, meta))
            updated = types.ResourceUpdatedNotification(params=params)
            await ctx.session.send_notification(updated, related_request_id=ctx.request_id)

    async def _tell_session(self, ctx: Context, client: Client, uri: str, task_id: str) -> None:
        try:
            async for _ in self._tasks.changes(client, task_id):
                await ctx.session.send_resource_updated(uri)
        except ApiError as error:
            log.info("No more updates of %s: %s", uri, error)
        except Exception as error:  # noqa: BLE001  # whatever a closed transport raises
            log.debug("The session that subscribed to %s is gone: %s", uri, error)
