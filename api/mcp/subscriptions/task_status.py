"""`notifications/tasks/status` and a task's progress (2025-11-25): sent to the session that started the task."""

import logging
from typing import Any, Literal, cast

import mcp_types as types

from outlast.api.errors import ApiError
from outlast.api.mcp.connections import Client
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.protocol.progress_notes import ProgressStep, ProgressSteps, progress_notification, wants_progress
from outlast.api.mcp.protocol.task_shapes import RELATED_TASK_META, STATE_EVENTS, legacy_task
from outlast.api.mcp.protocol.versions import Context
from outlast.api.mcp.subscriptions.session_watchers import start_watcher
from outlast.api.tasks.client import TaskClient
from outlast.contracts.events import TaskEvent
from outlast.contracts.tasks import Task

log = logging.getLogger("outlast.mcp")


class LegacyTaskStatus(types.Notification[dict[str, Any], Literal["notifications/tasks/status"]]):
    """`TaskStatusNotification`, with parameters that keep their nulls."""

    method: Literal["notifications/tasks/status"] = "notifications/tasks/status"
    params: dict[str, Any]


class TaskStatusNotifier:
    """Notifies sessions of their tasks, beside all requests: of the status, and of the progress if it was asked for."""

    def __init__(self, tasks: TaskClient) -> None:
        """Read tasks and their events through `tasks`."""
        self._tasks = tasks

    def watch(self, ctx: Context, client: Client, task: Task) -> None:
        """Notify the session of `ctx` of each change of the task, until the task or the session ends."""
        start_watcher(ctx, client.principal, f"task {task.id}", self._send_changes(ctx, client, task))

    async def _send_changes(self, ctx: Context, client: Client, task: Task) -> None:
        steps = ProgressSteps(dialect_of(task.mode).progress, task.actor)
        try:
            async for event in await self._tasks.events(client.caller, task.id):
                step = steps.after(event.name, event.data) if wants_progress(ctx) else None
                if step is not None and not await _sent(ctx, task, _progress(ctx, task, step)):
                    return
                if event.name in STATE_EVENTS and not await self._send_status(ctx, client, task, event):
                    return
        except ApiError as error:
            log.info("Stopped sending the status of task %s: %s", task.id, error)

    async def _send_status(self, ctx: Context, client: Client, task: Task, event: TaskEvent) -> bool:
        """Send the task's status. False when it was the last one, or when the session has ended."""
        now = await self._tasks.describe(client.caller, task.id)
        is_sent = await _sent(ctx, task, cast(Any, LegacyTaskStatus(params=legacy_task(now))))
        return is_sent and event.name != "task_completed"


def _progress(ctx: Context, task: Task, step: ProgressStep) -> types.ProgressNotification:
    """The token of the request that became the task is good until the task ends (MCP 2025-11-25, tasks)."""
    return progress_notification(ctx, step, {**(step.note.meta or {}), RELATED_TASK_META: {"taskId": task.id}})


async def _sent(ctx: Context, task: Task, notification: types.ServerNotification) -> bool:
    """Send it to the session. False when that has ended."""
    try:
        await ctx.session.send_notification(notification)
    except Exception as error:  # noqa: BLE001  # a closed transport raises exceptions of many types
        log.debug("The session of task %s has ended: %s", task.id, error)
        return False
    return True
