"""`subscriptions/listen` (2026-07-28): one stream of notifications.

`taskIds` asks for `notifications/tasks`, each with the whole task; `toolsListChanged` for changes of the list of tools;
`resourceSubscriptions` for updates of resources.
"""

import asyncio
from contextlib import suppress
from typing import Any, Literal, cast

import mcp_types as types
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from outlast.api.errors import ApiError
from outlast.api.mcp.connections import Client, Connections
from outlast.api.mcp.protocol.task_shapes import STATE_EVENTS, detailed_task
from outlast.api.mcp.protocol.versions import Context, require_tasks
from outlast.api.mcp.subscriptions.resource_updates import ResourceUpdates
from outlast.api.mcp.subscriptions.tool_list_changes import ChangeListener
from outlast.api.tasks.client import TaskClient

_MAX_TASK_IDS = 100


class ModernTaskStatus(types.Notification[dict[str, Any], Literal["notifications/tasks"]]):
    """The notification of the tasks extension: the whole task."""

    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: dict[str, Any]


class ListenStreams:
    """The handler of `subscriptions/listen`."""

    def __init__(self, tasks: TaskClient, connections: Connections, resources: ResourceUpdates) -> None:
        """Watch tasks through `tasks`, and resources through `resources`."""
        self._tasks = tasks
        self._connections = connections
        self._resources = resources

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """`subscriptions/listen`. A stream for tasks alone ends when all of them have ended; others stay open."""
        if ctx.request_id is None:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen requires a request id")
        client = await self._connections.client(ctx)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        requested_ids = _requested_task_ids(params)
        if requested_ids:
            require_tasks(ctx)
        task_ids = [task_id for task_id in requested_ids if await self._exists(client, task_id)]
        uris = await self._resources.existing(ctx, client, params.notifications.resource_subscriptions)
        with client.connection.tool_list_changes.listen() as listener:
            await self._acknowledge(ctx, params, task_ids, uris, meta)
            async with asyncio.TaskGroup() as group:
                for task_id in task_ids:
                    group.create_task(self._send_task_changes(ctx, client, task_id, meta))
                for uri in uris:
                    group.create_task(self._resources.notify_stream(ctx, client, uri, meta))
                if params.notifications.tools_list_changed or uris or not requested_ids:
                    group.create_task(self._send_tool_list_changes(ctx, params, listener, meta))
        return types.SubscriptionsListenResult(_meta=cast(Any, meta))

    async def _acknowledge(
        self,
        ctx: Context,
        params: types.SubscriptionsListenRequestParams,
        task_ids: list[str],
        uris: list[str],
        meta: dict[str, Any],
    ) -> None:
        """Tell the client which of its subscriptions are active."""
        active: dict[str, Any] = {"toolsListChanged": True} if params.notifications.tools_list_changed else {}
        if task_ids:
            active["taskIds"] = task_ids
        if uris:
            active["resourceSubscriptions"] = uris
        acknowledged = types.SubscriptionsAcknowledgedNotificationParams(
            notifications=types.SubscriptionFilter.model_validate(active), _meta=cast(Any, meta)
        )
        await ctx.session.send_notification(
            types.SubscriptionsAcknowledgedNotification(params=acknowledged), related_request_id=ctx.request_id
        )

    async def _send_tool_list_changes(
        self,
        ctx: Context,
        params: types.SubscriptionsListenRequestParams,
        listener: ChangeListener,
        meta: dict[str, Any],
    ) -> None:
        """Keep the stream open until the client closes it; send changes only if the client asked for them."""
        async for _ in listener.changes():
            if params.notifications.tools_list_changed:
                changed = types.ToolListChangedNotification(params=types.NotificationParams(_meta=cast(Any, meta)))
                await ctx.session.send_notification(changed, related_request_id=ctx.request_id)

    async def _send_task_changes(self, ctx: Context, client: Client, task_id: str, meta: dict[str, Any]) -> None:
        await self._send_task(ctx, client, task_id, meta)
        async for event in await self._tasks.events(client.caller, task_id):
            if event.name in STATE_EVENTS:
                await self._send_task(ctx, client, task_id, meta)
                if event.name == "task_completed":
                    return

    async def _send_task(self, ctx: Context, client: Client, task_id: str, meta: dict[str, Any]) -> None:
        answer = await self._tasks.answer(client.caller, task_id)
        state = detailed_task(answer, mode=client.mode, caller_id=client.caller.id)
        state.pop("resultType")
        notification = ModernTaskStatus(params={**state, "_meta": meta})
        await ctx.session.send_notification(cast(Any, notification), related_request_id=ctx.request_id)

    async def _exists(self, client: Client, task_id: str) -> bool:
        with suppress(ApiError):
            await self._tasks.describe(client.caller, task_id)
            return True
        return False


def _requested_task_ids(params: types.SubscriptionsListenRequestParams) -> list[str]:
    """The first 100 of `taskIds`."""
    value: object = (params.notifications.model_extra or {}).get("taskIds")
    entries = cast(list[object], value) if isinstance(value, list) else []
    return [entry for entry in entries if isinstance(entry, str)][:_MAX_TASK_IDS]
