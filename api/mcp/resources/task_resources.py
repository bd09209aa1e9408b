"""Tasks as resources: `outlast://tasks/{id}` is a task's state, with its answer once there is one."""

import re
from collections.abc import AsyncIterator
from typing import Any

from outlast.api.mcp.calls.tasks import modern_state
from outlast.api.mcp.connections import Client
from outlast.api.tasks.client import TaskClient

JsonObject = dict[str, Any]
TASK_URI_TEMPLATE = "outlast://tasks/{id}"
TASK_MIME_TYPE = "application/json"
_TASK_URI = re.compile(r"outlast://tasks/([^/?#]{1,200})")
_CHANGING = frozenset({"run_started", "status_message", "input_required", "task_completed", "run_finished"})


def task_of(uri: str) -> str | None:
    """The id in a task's URI; None for any other URI."""
    found = _TASK_URI.fullmatch(uri)
    return found[1] if found else None


def task_template() -> JsonObject:
    """The entry of `resources/templates/list`."""
    return {
        "uriTemplate": TASK_URI_TEMPLATE,
        "name": "task",
        "title": "Task",
        "description": "A task of yours: its state, what it asks, and its result once it has ended. Can be subscribed.",
        "mimeType": TASK_MIME_TYPE,
    }


class TaskResources:
    """Reads and watches the tasks of callers."""

    def __init__(self, tasks: TaskClient) -> None:
        """Ask `tasks`."""
        self._tasks = tasks

    async def read(self, client: Client, task_id: str) -> JsonObject:
        """The task as `tasks/get` of the newer era has it, with its tool, Actor and run. Raises `TaskNotFound`."""
        answer = await self._tasks.answer(client.caller, task_id)
        state = modern_state(answer, mode=client.mode)
        state.pop("resultType")
        task = answer.task
        more = {"tool": task.tool, "actor": task.actor, "runId": task.run.run_id if task.run else None}
        return {**{name: value for name, value in more.items() if value is not None}, **state}

    async def check(self, client: Client, task_id: str) -> None:
        """Raises `TaskNotFound` unless the task is the client's."""
        await self._tasks.describe(client.caller, task_id)

    async def changes(self, client: Client, task_id: str) -> AsyncIterator[None]:
        """Yields each time the task has changed from now on, until its workflow has ended."""
        seen = await self._tasks.describe(client.caller, task_id)
        async for event in await self._tasks.events(client.caller, task_id):
            # The past is told again first: only what has changed the state since is news.
            if event.name not in _CHANGING:
                continue
            now = await self._tasks.describe(client.caller, task_id)
            if now != seen:
                seen = now
                yield
        if await self._tasks.describe(client.caller, task_id) != seen:
            yield
