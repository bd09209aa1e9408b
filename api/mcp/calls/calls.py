"""`tools/call`: as a task where the client knows tasks, else waited for as long as such clients have patience."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, METHOD_NOT_FOUND, CallToolRequestParams
from pydantic import JsonValue

from outlast.api.access.tool_masks import MaskGate, narrowed
from outlast.api.contracts.tasks import Task, TaskAnswer, TaskRequest
from outlast.api.errors import InvalidCall, MaskedToolCalled, TaskFinished
from outlast.api.mcp.calls.pending_calls import PlainCalls
from outlast.api.mcp.calls.progress import Progress
from outlast.api.mcp.calls.questions import answerable, ask_client, parsed_answers
from outlast.api.mcp.connections import Client, Connections, split_payment
from outlast.api.mcp.protocol.eras import TASKS_EXTENSION, Context, has_capability, is_modern, knows_tasks, lacking
from outlast.api.mcp.protocol.request_meta import idempotency_key, task_request, tool_mask
from outlast.api.mcp.protocol.request_state import RequestStates
from outlast.api.mcp.protocol.task_shapes import handoffs_meta, input_requests, modern_task
from outlast.api.offer.mcp_results import call_result
from outlast.api.services import Services
from outlast.api.tasks.still_working import still_working
from outlast.api.tasks.tools import TaskTools
from outlast.api.tasks.wait_argument import split_wait
from outlast.workflows.contracts.tool_calls import TaskStatus, ToolResult
from outlast.workflows.tools.common.actors.add_actor import ADDED_ACTOR_META
from outlast.workflows.tools.common.dev.invalid import shown_input
from outlast.workflows.tools.framework.tool import TaskUse, Tool
from outlast.workflows.tools.loader import ToolSet
from outlast.workflows.tools.registry import UnknownTool

TASK_META = "outlast/taskId"
"""Key in an answer's `_meta`: the task behind it."""
_FIRST_QUESTION_SECONDS = 5.0

OnToolsChanged = Callable[[Context, Client], Awaitable[None]]


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
        self._tasks = services.tasks
        self._connections = connections
        self._on_tools_changed = on_tools_changed
        self._task_tools = TaskTools(services.tasks)
        self._states = RequestStates(services.sealer)
        self._plain = PlainCalls(services.tasks)
        self._masks = MaskGate(services.settings)

    async def call(self, ctx: Context, params: CallToolRequestParams) -> dict[str, Any]:
        """The answer of `tools/call`; raises -32602 for an unknown tool."""
        client = await self._connections.client(ctx)
        tools = await self._connections.tools(client)
        definition = self._tool_named(tools, params)
        if definition.in_front:
            return call_result(await self._in_front(client, tools, definition, params), mode=client.mode)
        _require_client(ctx, definition)
        try:
            return await self._carry_out(ctx, self._understood(client, tools, definition, params), params)
        except InvalidCall as error:
            return call_result(ToolResult.failed(error.envelope), mode=client.mode)

    async def start(self, ctx: Context, params: CallToolRequestParams) -> Task:
        """Start the call as a task of the older era (`params.task`)."""
        client = await self._connections.client(ctx)
        tools = await self._connections.tools(client)
        definition = self._tool_named(tools, params)
        if definition.in_front:
            raise MCPError(METHOD_NOT_FOUND, f"{definition.name} looks after tasks and does not become one.")
        try:
            return await asyncio.shield(self._start(self._understood(client, tools, definition, params)))
        except InvalidCall as error:
            raise MCPError(INVALID_PARAMS, str(error), data=error.envelope.model_dump(mode="json")) from error

    async def cancel_plain(self, ctx: Context, request_id: str) -> None:
        """The client has sent `notifications/cancelled` for a plain call: cancel its task."""
        await self._plain.cancel(ctx, await self._connections.client(ctx), request_id)

    async def offer_added_actor(self, ctx: Context, client: Client, result: ToolResult) -> None:
        """What `add-actor` has answered: offer the Actor on this connection."""
        actor = result.meta.get(ADDED_ACTOR_META)
        if isinstance(actor, str) and await self._connections.add_actor(client, actor):
            await self._on_tools_changed(ctx, client)

    def _tool_named(self, tools: ToolSet, params: CallToolRequestParams) -> Tool:
        """The tool that is called. What is called by a name that no tool has ends where calls of `invalid` end."""
        try:
            return tools.get(params.name)
        except UnknownTool as error:
            envelope = narrowed(error.envelope, self._masks.effective(tool_mask(_meta(params))))
            data = {**envelope.model_dump(mode="json"), "input": shown_input(params.arguments or {})}
            raise MCPError(INVALID_PARAMS, envelope.message, data=data) from error

    async def _in_front(
        self, client: Client, tools: ToolSet, definition: Tool, params: CallToolRequestParams
    ) -> ToolResult:
        """The answer of a tool that looks after tasks."""
        try:
            self._masks.admit(definition.name, self._masks.effective(tool_mask(_meta(params))), tools.tools)
        except MaskedToolCalled as error:
            return ToolResult.failed(error.envelope)
        return await self._task_tools.call(client.caller, definition, params.arguments or {})

    async def _carry_out(self, ctx: Context, call: Call, params: CallToolRequestParams) -> dict[str, Any]:
        offered = dict(params.input_responses or {})
        if params.request_state is not None:
            return await self._answer_questions(ctx, call, params.request_state, offered)
        task = await self._plain.started(ctx, call.client, self._start(call))
        if _becomes_task(ctx, call, TaskUse.ALWAYS, TaskUse.REQUIRED):
            return {"resultType": "task", **modern_task(task)}
        becomes_task = _becomes_task(ctx, call, TaskUse.AFTER_QUESTIONS)
        seconds = _FIRST_QUESTION_SECONDS if becomes_task else call.wait_seconds
        answer = await self._wait(ctx, call, task.id, offered, seconds)
        self._plain.answered(ctx, call.client)
        return await self._said(ctx, call, answer)

    async def _answer_questions(self, ctx: Context, call: Call, state: str, offered: dict[str, Any]) -> dict[str, Any]:
        """The same call again, with answers to what its task has asked (2026-07-28)."""
        caller = call.client.caller
        task_id = self._states.task_in(caller, state, call.definition.name)
        asked = (await self._tasks.describe(caller, task_id)).input_requests or {}
        await self._submit(call, task_id, parsed_answers(offered, asked))
        seconds = 0.0 if _becomes_task(ctx, call, TaskUse.AFTER_QUESTIONS) else call.wait_seconds
        return await self._said(ctx, call, await self._wait(ctx, call, task_id, {}, seconds))

    async def _said(self, ctx: Context, call: Call, answer: TaskAnswer) -> dict[str, Any]:
        task, client = answer.task, call.client
        meta: dict[str, JsonValue] = {TASK_META: task.id}
        if answer.result is not None:
            await self.offer_added_actor(ctx, client, answer.result)
            return call_result(answer.result, mode=client.mode, meta=meta)
        asked = answerable(ctx, task.input_requests) if is_modern(ctx) else {}
        if task.status is TaskStatus.INPUT_REQUIRED and asked:
            state = self._states.state_of(client.caller, task.id, call.definition.name)
            required = {"resultType": "input_required", "inputRequests": input_requests(asked), "requestState": state}
            handed = handoffs_meta(asked)
            return {**required, "_meta": handed} if handed else required
        if _becomes_task(ctx, call, TaskUse.AFTER_QUESTIONS):
            return {"resultType": "task", **modern_task(task)}
        working = still_working(task, run_report=call.definition.calls_actor)
        return call_result(working, mode=client.mode, meta=meta)

    async def _start(self, call: Call) -> Task:
        return await self._tasks.start(call.client.caller, call.request, idempotency_key=call.idempotency_key)

    async def _wait(
        self, ctx: Context, call: Call, task_id: str, offered: dict[str, Any], seconds: float
    ) -> TaskAnswer:
        """The task's answer, or its state when the client's patience is over or it has to be asked something."""
        async with Progress(ctx, call.client, self._tasks, task_id) as progress:
            answer = await self._answer(ctx, call, task_id, offered, seconds)
            if answer.result is not None:
                await progress.to_its_end()
            return answer

    async def _answer(
        self, ctx: Context, call: Call, task_id: str, offered: dict[str, Any], seconds: float
    ) -> TaskAnswer:
        clock = asyncio.get_running_loop()
        deadline = clock.time() + seconds
        while True:
            left = max(deadline - clock.time(), 0)
            answer = await self._tasks.answer_or_question(call.client.caller, task_id, wait_seconds=left)
            asked = answer.task.input_requests or {}
            if not asked or answer.result is not None:
                return answer
            known = parsed_answers({key: offered.pop(key) for key in asked if key in offered}, asked)
            if known:
                await self._submit(call, task_id, known)
                continue
            askable = answerable(ctx, asked)
            if is_modern(ctx) or not askable:
                return answer
            await ask_client(ctx, self._tasks, call.client.caller, task_id, askable)

    async def _submit(self, call: Call, task_id: str, answers: Any) -> None:
        """Hand answers to the task. What does not fit, or is not asked any more, leaves it as it is: it asks again."""
        if not answers:
            return
        try:
            await self._tasks.submit_input(call.client.caller, task_id, answers)
        except (InvalidCall, TaskFinished):
            return

    def _understood(self, client: Client, tools: ToolSet, definition: Tool, params: CallToolRequestParams) -> Call:
        meta = _meta(params)
        arguments, payment = split_payment(params.arguments or {}, definition.payment_property)
        arguments, wait = split_wait(definition, client.mode, arguments, meta, self._services.settings.max_wait_seconds)
        request = task_request(
            meta,
            tool=definition.name,
            arguments=cast(dict[str, JsonValue], arguments),
            mode=client.mode,
            payment=payment,
            offered_tools=tuple(tools.tools),
        )
        return Call(client, definition, request, idempotency_key(meta), wait)


def _meta(params: CallToolRequestParams) -> dict[str, Any]:
    return cast(dict[str, Any], params.meta or {})


def _becomes_task(ctx: Context, call: Call, *uses: TaskUse) -> bool:
    return knows_tasks(ctx) and call.definition.task_use in uses


def _require_client(ctx: Context, definition: Tool) -> None:
    """Refuse a client that lacks what the tool cannot do without."""
    missing = [name for name in definition.client_needs if not has_capability(ctx, name)]
    if missing and is_modern(ctx):
        raise lacking({name: {} for name in missing})
    if missing:
        raise MCPError(INVALID_PARAMS, f"{definition.name} needs a client with: {', '.join(missing)}.")
    if definition.task_use is TaskUse.REQUIRED and is_modern(ctx) and not knows_tasks(ctx):
        raise lacking({"extensions": {TASKS_EXTENSION: {}}})
    if definition.task_use is TaskUse.REQUIRED and not is_modern(ctx):
        raise MCPError(METHOD_NOT_FOUND, f"{definition.name} can only be called as a task.")
