"""`tasks/*` in both eras. The tasks are the workflows: there is no other store."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH, INTERNAL_ERROR, INVALID_PARAMS, PaginatedRequestParams, RequestParams
from pydantic import Field, JsonValue

from outlast.api.contracts.tasks import TaskAnswer
from outlast.api.errors import ApiError, InvalidCall, TaskFinished
from outlast.api.mcp.calls.questions import RELATED_TASK_META, answerable, ask_client, parsed_answers
from outlast.api.mcp.connections import Client, Connections
from outlast.api.mcp.protocol.eras import (
    Context,
    is_modern,
    request_header,
    require_legacy,
    require_modern,
    require_tasks,
)
from outlast.api.mcp.protocol.task_shapes import handoffs_meta, input_requests, legacy_task, modern_task
from outlast.api.offer.mcp_results import call_result
from outlast.api.services import Services
from outlast.workflows.contracts.tool_calls import DEFECT_META, TaskStatus, ToolResult

_RESULT_WAIT_SECONDS = 60.0
_QUESTION_PAUSE_SECONDS = 1.0
Answer = TypeVar("Answer")
OnResult = Callable[[Context, Client, ToolResult], Awaitable[None]]


class TaskParams(RequestParams):
    """Names a task."""

    task_id: str


class UpdateTaskParams(TaskParams):
    """Answers to a task's questions (2026-07-28)."""

    input_responses: dict[str, Any] = Field(default_factory=dict)


class McpTasks:
    """The handlers."""

    def __init__(self, services: Services, connections: Connections, on_result: OnResult) -> None:
        """Serve the tasks of `services`; `on_result` is told of each result collected."""
        self._tasks = services.tasks
        self._connections = connections
        self._on_result = on_result

    async def get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """`tasks/get`."""
        client = await self._client(ctx, params.task_id)
        with_result = is_modern(ctx)
        answer = await refused_as_mcp(self._tasks.answer(client.caller, params.task_id))
        return modern_state(answer, mode=client.mode) if with_result else legacy_task(answer.task)

    async def list(self, ctx: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        """`tasks/list` (2025-11-25): the caller's tasks, open ones first, then those that ended last."""
        require_legacy(ctx)
        client = await self._connections.client(ctx)
        page = await refused_as_mcp(self._tasks.list(client.caller, page_token=params.cursor))
        tools: dict[str, Any] = {task.id: task.tool for task in page.tasks}
        answer: dict[str, Any] = {
            "tasks": [legacy_task(task) for task in page.tasks],
            "_meta": {"outlast/tools": tools},
        }
        if page.next_page_token:
            answer["nextCursor"] = page.next_page_token
        return answer

    async def result(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """`tasks/result` (2025-11-25): blocks until the task has ended, asking the user what the task asks."""
        require_legacy(ctx)
        client = await self._client(ctx, params.task_id)
        while True:
            answer = await refused_as_mcp(
                self._tasks.answer_or_question(client.caller, params.task_id, wait_seconds=_RESULT_WAIT_SECONDS)
            )
            if answer.result is not None:
                await self._on_result(ctx, client, answer.result)
                related: dict[str, JsonValue] = {RELATED_TASK_META: {"taskId": params.task_id}}
                return call_result(answer.result, mode=client.mode, meta=related)
            asked = answerable(ctx, answer.task.input_requests)
            if asked:
                await ask_client(ctx, self._tasks, client.caller, params.task_id, asked)
            elif answer.task.input_requests:
                # Somebody else may answer; ask Temporal again, not at once.
                await asyncio.sleep(_QUESTION_PAUSE_SECONDS)

    async def cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """`tasks/cancel`. In the newer era cancelling an ended task is no error."""
        client = await self._client(ctx, params.task_id)
        task = await refused_as_mcp(self._tasks.describe(client.caller, params.task_id))
        if task.status.is_final:
            if is_modern(ctx):
                return {"resultType": "complete"}
            raise MCPError(INVALID_PARAMS, f"Cannot cancel task {task.id}: it is {task.status.value} already.")
        try:
            task = await self._tasks.cancel(client.caller, params.task_id)
        except TaskFinished:
            task = await refused_as_mcp(self._tasks.describe(client.caller, params.task_id))
        if is_modern(ctx):
            return {"resultType": "complete"}
        # The specification wants the task as cancelled in this answer; it is, once its run has ended.
        return {**legacy_task(task), "status": TaskStatus.CANCELLED.value}

    async def update(self, ctx: Context, params: UpdateTaskParams) -> dict[str, Any]:
        """`tasks/update` (2026-07-28): the client's answers. What is not asked (any more) is ignored."""
        require_modern(ctx)
        client = await self._client(ctx, params.task_id)
        task = await refused_as_mcp(self._tasks.describe(client.caller, params.task_id))
        answers = parsed_answers(params.input_responses, task.input_requests or {})
        if answers:
            await refused_as_mcp(self._tasks.submit_input(client.caller, params.task_id, answers))
        return {"resultType": "complete"}

    async def _client(self, ctx: Context, task_id: str) -> Client:
        require_tasks(ctx)
        _check_name_header(ctx, task_id)
        return await self._connections.client(ctx)


def modern_state(answer: TaskAnswer, *, mode: str) -> dict[str, Any]:
    """The whole task (`tasks/get`, `notifications/tasks`): with its result, its error, or its questions."""
    state = {"resultType": "complete", **modern_task(answer.task)}
    if answer.task.status is TaskStatus.INPUT_REQUIRED:
        asked = answer.task.input_requests or {}
        handed = handoffs_meta(asked)
        return {**state, "inputRequests": input_requests(asked), **({"_meta": handed} if handed else {})}
    if answer.result is None or answer.task.status is TaskStatus.CANCELLED:
        return state
    if not answer.task.answered or DEFECT_META in answer.result.meta:
        return {**state, "status": TaskStatus.FAILED.value, "error": _error(answer.result)}
    return {**state, "result": call_result(answer.result, mode=mode)}


async def refused_as_mcp(awaited: Awaitable[Answer], *, passing: type[ApiError] | None = None) -> Answer:
    """What the task client refuses, as a JSON-RPC error; errors of the type `passing` stay what they are."""
    try:
        return await awaited
    except ApiError as error:
        if passing is not None and isinstance(error, passing):
            raise
        code = INTERNAL_ERROR if error.status >= 500 else INVALID_PARAMS
        data: dict[str, Any] = {"type": error.slug}
        if isinstance(error, InvalidCall):
            data["error"] = error.envelope.model_dump(mode="json", exclude_none=True)
        raise MCPError(code, str(error), data=data) from error


def _error(result: ToolResult) -> dict[str, Any]:
    error: dict[str, Any] = {"code": INTERNAL_ERROR, "message": result.headline or "The tool failed."}
    return {**error, "data": result.error.model_dump(mode="json", exclude_none=True)} if result.error else error


def _check_name_header(ctx: Context, task_id: str) -> None:
    """2026-07-28: `Mcp-Name`, where it is sent, must name the task of the body."""
    named = request_header(ctx, "mcp-name") if is_modern(ctx) else None
    if named is not None and named != task_id:
        raise MCPError(HEADER_MISMATCH, f"Mcp-Name says {named!r}, the body {task_id!r}.")
