"""`notifications/tasks/status` (2025-11-25): sent to the session that started the task."""

import logging
from typing import Any, Literal, cast

import mcp_types as types

from outlast.api.contracts.events import TaskEvent
from outlast.api.errors import ApiError
from outlast.api.mcp.connections import Client
from outlast.api.mcp.protocol.task_shapes import STATE_EVENTS, legacy_task
from outlast.api.mcp.protocol.versions import Context
from outlast.api.mcp.subscriptions.session_watchers import start_watcher
from outlast.api.tasks.client import TaskClient

log = logging.getLogger("outlast.mcp")


class LegacyTaskStatus(types.Notification[dict[str, Any], Literal["notifications/tasks/status"]]):
    """`TaskStatusNotification`, with parameters that keep their nulls."""

    method: Literal["notifications/tasks/status"] = "notifications/tasks/status"
    params: dict[str, Any]


class TaskStatusNotifier:
    """Notifies sessions of the status of their tasks."""

    def __init__(self, tasks: TaskClient) -> None:
        """Read tasks and their events through `tasks`."""
        self._tasks = tasks

    def watch(self, ctx: Context, client: Client, task_id: str) -> None:
        """Notify the session of `ctx` of each change of the task, until the task or the session ends."""
        start_watcher(ctx, f"task {task_id}", self._send_changes(ctx, client, task_id))

    async def _send_changes(self, ctx: Context, client: Client, task_id: str) -> None:
        try:
            async for event in await self._tasks.events(client.caller, task_id):
                if event.name in STATE_EVENTS and not await self._send_status(ctx, client, task_id, event):
                    return
        except ApiError as error:
            log.info("Stopped sending the status of task %s: %s", task_id, error)

    async def _send_status(self, ctx: Context, client: Client, task_id: str, event: TaskEvent) -> bool:
        """Send the task's status. False when it was the last one, or when the session has ended."""
        task = await self._tasks.describe(client.caller, task_id)
        try:
            await ctx.session.send_notification(cast(Any, LegacyTaskStatus(params=legacy_task(task))))
        except Exception as error:  # noqa: BLE001  # a closed transport raises exceptions of many types
            log.debug("The session of task %s has ended: %s", task_id, error)
            return False
        return event.name != "task_completed"
