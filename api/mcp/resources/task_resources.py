"""Tasks as resources: `outlast://tasks/{id}` holds a task's state, and its result once it has ended."""

import re
from collections.abc import AsyncIterator
from typing import Any

from outlast.api.mcp.connections import Client
from outlast.api.mcp.protocol.task_shapes import STATE_EVENTS, detailed_task
from outlast.api.tasks.client import TaskClient

JsonObject = dict[str, Any]
TASK_URI_TEMPLATE = "outlast://tasks/{id}"
TASK_MIME_TYPE = "application/json"
_TASK_URI = re.compile(r"outlast://tasks/([^/?#]{1,200})")


def task_id_of(uri: str) -> str | None:
    """The id in a task's URI; None for any other URI."""
    found = _TASK_URI.fullmatch(uri)
    return found[1] if found else None


def task_template() -> JsonObject:
    """The entry of `resources/templates/list`."""
    return {
        "uriTemplate": TASK_URI_TEMPLATE,
        "name": "task",
        "title": "Task",
        "description": "One of your tasks: its state, its open questions, and its result once it has ended. "
        "Supports subscriptions.",
        "mimeType": TASK_MIME_TYPE,
    }


class TaskResources:
    """Reads and watches the tasks of callers."""

    def __init__(self, tasks: TaskClient) -> None:
        """Read through `tasks`."""
        self._tasks = tasks

    async def read(self, client: Client, task_id: str) -> JsonObject:
        """The task as `tasks/get` of 2026-07-28 returns it, with its tool, Actor and run. Raises `TaskNotFound`."""
        answer = await self._tasks.answer(client.caller, task_id)
        state = detailed_task(answer, mode=client.mode, caller_id=client.caller.id)
        state.pop("resultType")
        task = answer.task
        details = {"tool": task.tool, "actor": task.actor, "runId": task.run.run_id if task.run else None}
        return {**{name: value for name, value in details.items() if value is not None}, **state}

    async def check(self, client: Client, task_id: str) -> None:
        """Raise `TaskNotFound` unless the task belongs to the client's caller."""
        await self._tasks.describe(client.caller, task_id)

    async def changes(self, client: Client, task_id: str) -> AsyncIterator[None]:
        """Yield each time the task changes from now on, until its workflow has ended."""
        last_seen = await self._tasks.describe(client.caller, task_id)
        async for event in await self._tasks.events(client.caller, task_id):
            # The events begin with the task's past: only those that differ from the last seen state are changes.
            if event.name not in STATE_EVENTS:
                continue
            now = await self._tasks.describe(client.caller, task_id)
            if now != last_seen:
                last_seen = now
                yield
        if await self._tasks.describe(client.caller, task_id) != last_seen:
            yield
