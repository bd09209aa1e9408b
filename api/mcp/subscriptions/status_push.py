"""Telling clients of changes without being asked.

2025-11-25: `notifications/tasks/status` on the session that started the task. 2026-07-28: `subscriptions/listen`, with
`taskIds` answered with `notifications/tasks`, each the whole task, with `toolsListChanged`, and with
`resourceSubscriptions`.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Any, Literal, cast

import mcp_types as types
from mcp.server.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_REQUEST

from outlast.api.contracts.events import TaskEvent
from outlast.api.errors import ApiError
from outlast.api.mcp.calls.tasks import modern_state
from outlast.api.mcp.connections import Client, Connections
from outlast.api.mcp.protocol.eras import Context, require_tasks
from outlast.api.mcp.protocol.task_shapes import legacy_task
from outlast.api.mcp.subscriptions.changes import Listening
from outlast.api.mcp.subscriptions.followers import follow
from outlast.api.mcp.subscriptions.resource_updates import ResourceUpdates
from outlast.api.tasks.client import TaskClient

log = logging.getLogger("outlast.mcp")

_TOLD = frozenset({"run_started", "status_message", "input_required", "task_completed", "run_finished"})
_MAX_TASK_IDS = 100


class LegacyTaskStatus(types.Notification[dict[str, Any], Literal["notifications/tasks/status"]]):
    """`TaskStatusNotification` whose parameters keep their nulls."""

    method: Literal["notifications/tasks/status"] = "notifications/tasks/status"
    params: dict[str, Any]


class ModernTaskStatus(types.Notification[dict[str, Any], Literal["notifications/tasks"]]):
    """The extension's notification: the whole task."""

    method: Literal["notifications/tasks"] = "notifications/tasks"
    params: dict[str, Any]


class StatusPush:
    """Follows tasks and lists on behalf of clients."""

    def __init__(self, tasks: TaskClient, connections: Connections, resources: ResourceUpdates) -> None:
        """Follow tasks through `tasks`, and `resources`."""
        self._tasks = tasks
        self._connections = connections
        self._resources = resources

    def follow(self, ctx: Context, client: Client, task_id: str) -> None:
        """Tell the session of the older era about the task until it ends, or the session does."""
        follow(ctx, f"task {task_id}", self._follow(ctx, client, task_id))

    async def listen(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams
    ) -> types.SubscriptionsListenResult:
        """`subscriptions/listen`. Ends when it was opened for tasks alone and each of them has ended, else never."""
        if ctx.request_id is None:
            raise MCPError(INVALID_REQUEST, "subscriptions/listen requires a request id")
        client = await self._connections.client(ctx)
        meta: dict[str, Any] = {SUBSCRIPTION_ID_META_KEY: ctx.request_id}
        task_ids = _task_ids(params)
        if task_ids:
            require_tasks(ctx)
        known = [task_id for task_id in task_ids if await self._is_known(client, task_id)]
        uris = await self._resources.known(ctx, client, params.notifications.resource_subscriptions)
        with client.connection.changes.listening() as listening:
            await self._acknowledge(ctx, params, known, uris, meta)
            async with asyncio.TaskGroup() as group:
                for task_id in known:
                    group.create_task(self._push(ctx, client, task_id, meta))
                for uri in uris:
                    group.create_task(self._resources.push(ctx, client, uri, meta))
                if params.notifications.tools_list_changed or uris or not task_ids:
                    group.create_task(self._push_changes(ctx, params, listening, meta))
        return types.SubscriptionsListenResult(_meta=cast(Any, meta))

    async def _acknowledge(
        self,
        ctx: Context,
        params: types.SubscriptionsListenRequestParams,
        task_ids: list[str],
        uris: list[str],
        meta: dict[str, Any],
    ) -> None:
        honoured: dict[str, Any] = {"toolsListChanged": True} if params.notifications.tools_list_changed else {}
        if task_ids:
            honoured["taskIds"] = task_ids
        if uris:
            honoured["resourceSubscriptions"] = uris
        acknowledged = types.SubscriptionsAcknowledgedNotificationParams(
            notifications=types.SubscriptionFilter.model_validate(honoured), _meta=cast(Any, meta)
        )
        await ctx.session.send_notification(
            types.SubscriptionsAcknowledgedNotification(params=acknowledged), related_request_id=ctx.request_id
        )

    async def _push_changes(
        self, ctx: Context, params: types.SubscriptionsListenRequestParams, listening: Listening, meta: dict[str, Any]
    ) -> None:
        """What was not asked for is not sent; the stream stays open until the client leaves."""
        async for _ in listening.changes():
            if params.notifications.tools_list_changed:
                changed = types.ToolListChangedNotification(params=types.NotificationParams(_meta=cast(Any, meta)))
                await ctx.session.send_notification(changed, related_request_id=ctx.request_id)

    async def _push(self, ctx: Context, client: Client, task_id: str, meta: dict[str, Any]) -> None:
        await self._send_modern(ctx, client, task_id, meta)
        async for event in await self._tasks.events(client.caller, task_id):
            if event.name in _TOLD:
                await self._send_modern(ctx, client, task_id, meta)
                if event.name == "task_completed":
                    return

    async def _send_modern(self, ctx: Context, client: Client, task_id: str, meta: dict[str, Any]) -> None:
        state = modern_state(await self._tasks.answer(client.caller, task_id), mode=client.mode)
        state.pop("resultType")
        notification = ModernTaskStatus(params={**state, "_meta": meta})
        await ctx.session.send_notification(cast(Any, notification), related_request_id=ctx.request_id)

    async def _follow(self, ctx: Context, client: Client, task_id: str) -> None:
        try:
            async for event in await self._tasks.events(client.caller, task_id):
                if event.name in _TOLD and not await self._send_legacy(ctx, client, task_id, event):
                    return
        except ApiError as error:
            log.info("No more status notifications for task %s: %s", task_id, error)

    async def _send_legacy(self, ctx: Context, client: Client, task_id: str, event: TaskEvent) -> bool:
        """False when there is nothing more to say, or nobody to say it to."""
        task = await self._tasks.describe(client.caller, task_id)
        try:
            await ctx.session.send_notification(cast(Any, LegacyTaskStatus(params=legacy_task(task))))
        except Exception as error:  # noqa: BLE001  # whatever a closed transport raises
            log.debug("Session of task %s is gone: %s", task_id, error)
            return False
        return event.name != "task_completed"

    async def _is_known(self, client: Client, task_id: str) -> bool:
        with suppress(ApiError):
            await self._tasks.describe(client.caller, task_id)
            return True
        return False


def _task_ids(params: types.SubscriptionsListenRequestParams) -> list[str]:
    wanted: object = (params.notifications.model_extra or {}).get("taskIds")
    entries = cast(list[object], wanted) if isinstance(wanted, list) else []
    return [entry for entry in entries if isinstance(entry, str)][:_MAX_TASK_IDS]
