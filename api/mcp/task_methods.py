"""`tasks/*` in both protocol versions. MCP tasks are Temporal workflows: there is no other store of tasks."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mcp.shared.exceptions import MCPError
from mcp_types import HEADER_MISMATCH, PaginatedRequestParams, RequestParams
from pydantic import Field, JsonValue

from outlast.api.catalog.mcp_results import call_result
from outlast.api.errors import TaskFinished, TaskNotFound
from outlast.api.mcp.client_questions import ClientQuestions, answerable, parsed_answers
from outlast.api.mcp.connections import Client, Connections
from outlast.api.mcp.dialects.registry import dialect_of
from outlast.api.mcp.protocol import task_shapes as shapes
from outlast.api.mcp.protocol.versions import (
    Context,
    is_modern,
    require_legacy,
    require_modern,
    require_tasks,
    with_mcp_errors,
)
from outlast.api.services import Services
from outlast.api.temporal.history import DESCRIPTIONS
from outlast.contracts.tasks import TaskAnswer, TaskListing
from outlast.workflows.contracts.tool_calls import ToolResult

_RESULT_WAIT_SECONDS = 60.0
_QUESTION_PAUSE_SECONDS = 1.0
OnResult = Callable[[Context, Client, str, ToolResult], Awaitable[ToolResult]]


class TaskParams(RequestParams):
    """Parameters of the methods that take a task."""

    task_id: str


class UpdateTaskParams(TaskParams):
    """Parameters of `tasks/update` (2026-07-28): answers to the task's questions."""

    input_responses: dict[str, Any] = Field(default_factory=dict)


class TaskMethods:
    """The handlers of `tasks/*`."""

    def __init__(
        self, services: Services, connections: Connections, questions: ClientQuestions, on_result: OnResult
    ) -> None:
        """Serve the tasks of `services`. `on_result` turns a tool's result into what the collecting client gets."""
        self._questions = questions
        self._tasks = services.tasks
        self._connections = connections
        self._on_result = on_result

    async def get(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """`tasks/get`."""
        client = await self._client(ctx, params.task_id)
        answer = await with_mcp_errors(self._answer(client, params.task_id))
        if is_modern(ctx):
            if answer.result is not None and answer.result.is_error:
                result = await with_mcp_errors(self._on_result(ctx, client, answer.task.tool, answer.result))
                answer = answer.model_copy(update={"result": result})
            return shapes.detailed_task(answer, mode=client.mode, caller_id=client.caller.id)
        return shapes.legacy_task(answer.task)

    async def list(self, ctx: Context, params: PaginatedRequestParams) -> dict[str, Any]:
        """`tasks/list` (2025-11-25): the caller's open tasks, then ended ones, newest first."""
        require_legacy(ctx)
        client = await self._connections.client(ctx)
        page = await with_mcp_errors(self._tasks.list(client.caller, TaskListing(page_token=params.cursor)))
        result: dict[str, Any] = {
            "tasks": [shapes.legacy_task(task) for task in page.tasks],
            "_meta": {shapes.TOOLS_META: {task.id: task.tool for task in page.tasks}},
        }
        if page.next_page_token:
            result["nextCursor"] = page.next_page_token
        return result

    async def result(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """`tasks/result` (2025-11-25): wait until the task has ended, and send the user its questions."""
        require_legacy(ctx)
        client = await self._client(ctx, params.task_id)
        while True:
            answer = await with_mcp_errors(
                self._tasks.answer_or_question(client.caller, params.task_id, wait_seconds=_RESULT_WAIT_SECONDS)
            )
            if answer.result is not None:
                result = await with_mcp_errors(self._on_result(ctx, client, answer.task.tool, answer.result))
                related: dict[str, JsonValue] = {shapes.RELATED_TASK_META: {"taskId": params.task_id}}
                return call_result(result, mode=client.mode, meta=related)
            questions = answerable(ctx, answer.task.input_requests, client.principal)
            if questions:
                await self._questions.ask_for_task(ctx, client.principal, params.task_id, questions)
            elif answer.task.input_requests:
                # Only another client can answer; pause before asking Temporal again.
                with DESCRIPTIONS.follower():
                    await asyncio.sleep(DESCRIPTIONS.pause_seconds(_QUESTION_PAUSE_SECONDS))

    async def cancel(self, ctx: Context, params: TaskParams) -> dict[str, Any]:
        """`tasks/cancel`. For an ended task 2026-07-28 acknowledges, and 2025-11-25 raises -32602."""
        client = await self._client(ctx, params.task_id)
        task = await with_mcp_errors(self._tasks.describe(client.caller, params.task_id))
        if task.is_final or (task.is_cancelling and not is_modern(ctx)):
            if is_modern(ctx):
                return {"resultType": "complete"}
            raise dialect_of(client.mode).not_cancelled(task)
        try:
            task = await self._tasks.cancel(client.caller, params.task_id)
        except TaskFinished:
            task = await with_mcp_errors(self._tasks.describe(client.caller, params.task_id))
        return {"resultType": "complete"} if is_modern(ctx) else shapes.legacy_task(shapes.as_cancelled(task))

    async def update(self, ctx: Context, params: UpdateTaskParams) -> dict[str, Any]:
        """`tasks/update` (2026-07-28): submit answers. Answers to questions that are not open are ignored."""
        require_modern(ctx)
        client = await self._client(ctx, params.task_id)
        task = await with_mcp_errors(self._tasks.look_at(client.principal, params.task_id))
        answers = parsed_answers(params.input_responses, task.input_requests or {})
        if answers:
            await with_mcp_errors(self._tasks.submit_input(client.principal, params.task_id, answers))
        return {"resultType": "complete"}

    async def _answer(self, client: Client, task_id: str) -> TaskAnswer:
        """Return the caller's task, or another's as an approver sees it."""
        try:
            return await self._tasks.answer(client.caller, task_id)
        except TaskNotFound:
            return TaskAnswer(task=await self._tasks.look_at(client.principal, task_id))

    async def _client(self, ctx: Context, task_id: str) -> Client:
        require_tasks(ctx)
        _check_name_header(ctx, task_id)
        return await self._connections.client(ctx)


def _check_name_header(ctx: Context, task_id: str) -> None:
    """2026-07-28: when the request has the header `Mcp-Name`, it must equal the task id of the body."""
    name = getattr(ctx.request, "headers", {}).get("mcp-name") if is_modern(ctx) else None
    if name is not None and name != task_id:
        raise MCPError(HEADER_MISMATCH, f"The header Mcp-Name is {name!r}, but the body names task {task_id!r}.")
