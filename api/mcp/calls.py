"""`tools/call`: as a task where the client knows tasks, else waited for as long as such clients have patience."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, CallToolRequestParams
from pydantic import JsonValue

from api.errors import InvalidCall
from api.mcp.connections import Client, Connections, split_payment
from api.mcp.eras import Context, can_be_asked, is_modern, knows_tasks
from api.mcp.progress import report_progress
from api.mcp.questions import answers_from, ask_client, question_result
from api.mcp.results import call_result
from api.mcp.still_working import still_working
from api.mcp.task_shapes import modern_task
from api.services import Services
from api.task_models import Task, TaskAnswer, TaskRequest
from api.task_tools import TaskTools
from workflows.models import TaskStatus, ToolResult
from workflows.tools.common.add_actor import ADDED_ACTOR_META
from workflows.tools.loader import ToolSet
from workflows.tools.registry import UnknownTool
from workflows.tools.tool import Tool

IDEMPOTENCY_META = "outlast/idempotency-key"
"""Key in a request's `_meta`: the same key and call give the same task."""
SESSION_META = "outlast/session-id"
WAIT_ARGUMENT = "waitSecs"
DEFAULT_WAIT_SECONDS = 45.0
"""Many clients give up after 60 seconds."""

OnToolsChanged = Callable[[Context], Awaitable[None]]


@dataclass(frozen=True)
class Call:
    """One `tools/call`, understood."""

    client: Client
    definition: Tool
    request: TaskRequest
    idempotency_key: str | None
    wait_seconds: float


class Calls:
    """Carries `tools/call` out."""

    def __init__(self, services: Services, connections: Connections, on_tools_changed: OnToolsChanged) -> None:
        """`on_tools_changed` tells a client that its list of tools has changed."""
        self._services = services
        self._connections = connections
        self._on_tools_changed = on_tools_changed
        self._task_tools = TaskTools(services.tasks)
        self._plain: dict[tuple[str, str], tuple[Client, str]] = {}

    async def call(self, ctx: Context, params: CallToolRequestParams) -> dict[str, Any]:
        """The answer of `tools/call`; raises -32602 for an unknown tool."""
        client = await self._connections.client(ctx)
        tools = await self._connections.tools(client)
        definition = _tool_named(tools, params.name)
        if definition.in_front:
            result = await self._task_tools.call(client.caller, definition, params.arguments or {})
            return call_result(result, mode=client.mode)
        call = _understood(client, tools, definition, params)
        try:
            return await self._carry_out(ctx, call, params)
        except InvalidCall as error:
            return call_result(ToolResult.failed(error.envelope), mode=client.mode)

    async def start(self, ctx: Context, params: CallToolRequestParams) -> Task:
        """Start the call as a task of the older era (`params.task`)."""
        client = await self._connections.client(ctx)
        tools = await self._connections.tools(client)
        call = _understood(client, tools, _tool_named(tools, params.name), params)
        try:
            return await self._start(call)
        except InvalidCall as error:
            raise MCPError(INVALID_PARAMS, str(error), data=error.envelope.model_dump(mode="json")) from error

    async def cancel_plain(self, ctx: Context, request_id: str) -> None:
        """The client has sent `notifications/cancelled` for a plain call: cancel its task."""
        known = self._plain.get((_scope_of(ctx), request_id))
        if known is not None:
            client, task_id = known
            await self._services.tasks.cancel_if_open(client.caller, task_id)

    async def _carry_out(self, ctx: Context, call: Call, params: CallToolRequestParams) -> dict[str, Any]:
        resumed = await self._resumed(call, params)
        if resumed is None and knows_tasks(ctx) and call.definition.calls_actor:
            return {"resultType": "task", **modern_task(await self._start(call))}
        task_id = resumed or (await self._start(call)).id
        answer = await self._wait(ctx, call, task_id)
        if answer.task.status is TaskStatus.INPUT_REQUIRED and is_modern(ctx) and can_be_asked(ctx):
            return question_result(answer.task)
        if answer.result is not None:
            await self._offer_added_actor(ctx, call.client, answer.result)
            return call_result(answer.result, mode=call.client.mode, meta={"outlast/taskId": task_id})
        return call_result(
            still_working(answer.task, run_report=call.definition.calls_actor),
            mode=call.client.mode,
            meta={"outlast/taskId": task_id},
        )

    async def _start(self, call: Call) -> Task:
        return await self._services.tasks.start(call.client.caller, call.request, idempotency_key=call.idempotency_key)

    async def _resumed(self, call: Call, params: CallToolRequestParams) -> str | None:
        """The task that this call answers questions of (2026-07-28, `requestState` and `inputResponses`)."""
        task_id, answers = answers_from(params)
        if task_id is not None:
            await self._services.tasks.submit_input(call.client.caller, task_id, answers)
        return task_id

    async def _wait(self, ctx: Context, call: Call, task_id: str) -> TaskAnswer:
        """The task's answer, or its state when the client's patience is over or its user is asked something."""
        key = (_scope_of(ctx), str(ctx.request_id))
        self._plain[key] = (call.client, task_id)
        progress = asyncio.create_task(report_progress(ctx, self._services.tasks, call.client.caller, task_id))
        try:
            return await self._answer(ctx, call, task_id)
        finally:
            self._plain.pop(key, None)
            progress.cancel()

    async def _answer(self, ctx: Context, call: Call, task_id: str) -> TaskAnswer:
        tasks, caller = self._services.tasks, call.client.caller
        deadline = asyncio.get_running_loop().time() + call.wait_seconds
        while True:
            left = deadline - asyncio.get_running_loop().time()
            answer = await tasks.answer_or_question(caller, task_id, wait_seconds=max(left, 0))
            asked = answer.task.input_requests
            if not asked or answer.result is not None or is_modern(ctx) or not can_be_asked(ctx):
                return answer
            await ask_client(ctx, tasks, caller, task_id, asked)

    async def _offer_added_actor(self, ctx: Context, client: Client, result: ToolResult) -> None:
        actor = result.meta.get(ADDED_ACTOR_META)
        if isinstance(actor, str) and await self._connections.add_actor(client, actor):
            await self._on_tools_changed(ctx)


def _tool_named(tools: ToolSet, name: str) -> Tool:
    try:
        return tools.get(name)
    except UnknownTool as error:
        raise MCPError(INVALID_PARAMS, str(error), data=error.envelope.model_dump(mode="json")) from error


def _understood(client: Client, tools: ToolSet, definition: Tool, params: CallToolRequestParams) -> Call:
    arguments, payment = split_payment(params.arguments or {}, definition.payment_property)
    wait = arguments.pop(WAIT_ARGUMENT, None) if definition.calls_actor else None
    meta = cast(dict[str, Any], params.meta or {})
    request = TaskRequest(
        tool=definition.name,
        arguments=cast(dict[str, JsonValue], arguments),
        mode=client.mode,
        session_id=meta.get(SESSION_META),
        payment=payment,
        offered_tools=tuple(tools.tools),
    )
    return Call(client, definition, request, meta.get(IDEMPOTENCY_META), _wait_seconds(wait))


def _wait_seconds(wait: object) -> float:
    return float(wait) if isinstance(wait, int | float) and not isinstance(wait, bool) else DEFAULT_WAIT_SECONDS


def _scope_of(ctx: Context) -> str:
    """What request ids are unique in: a session of the older era, or the one stdio connection."""
    headers = getattr(ctx.request, "headers", None)
    return headers.get("mcp-session-id", "") if headers is not None else "stdio"
