"""Tools of Actors that are MCP servers, from workflow code."""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import timedelta

from pydantic import JsonValue
from temporalio import workflow
from temporalio.workflow import ActivityCancellationType

with workflow.unsafe.imports_passed_through():
    from outlast.activities.mcp_actors.activities import CALL_HEARTBEAT_TIMEOUT, CALL_RETRY_POLICY, McpActorActivities

from outlast.activities.mcp_actors.contracts import (
    RELAY_UPDATE,
    CallMcpToolInput,
    ListMcpToolsInput,
    McpAnswer,
    McpTool,
    McpToolList,
    RelayedAnswer,
    RelayedQuestion,
)
from outlast.workflows.contracts.questions import InputAnswer, InputRequest
from outlast.workflows.contracts.queues import RUNS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.handler_api.activity_calls import CallActivities, tool_errors
from outlast.workflows.handler_api.observability import timed

SAMPLING_PATIENCE = timedelta(minutes=5)
"""Longest wait for a client's model: not every client has one, and servers can do without. Users have no limit."""

AskAll = Callable[..., Awaitable[dict[str, InputAnswer]]]
"""`HandlerContext.ask_all`."""


class McpActors(CallActivities):
    """Calls tools of Actors that are MCP servers."""

    def __init__(self, call: ToolCall, ask_all: AskAll) -> None:
        super().__init__(call)
        self._ask_all = ask_all

    async def tools(self, actor: str) -> tuple[McpTool, ...]:
        """Return the usable tools of the server. Starts the Actor when it is not running."""
        return (await self.listing(actor)).tools

    async def listing(self, actor: str) -> McpToolList:
        """Return the tools of the server, with notes on unusable ones. Starts the Actor when it is not running."""
        request = ListMcpToolsInput(caller=self._call.caller, actor=actor)
        return await self._do(McpActorActivities.list_mcp_tools, request, f"list tools of {actor}")

    async def call(self, actor: str, tool: str, arguments: dict[str, JsonValue]) -> McpAnswer:
        """Call the tool at most once and return its answer unchanged.

        Questions that the server asks while its tool runs go to the caller.
        """
        request = CallMcpToolInput(
            caller=self._call.caller, actor=actor, tool=tool, arguments=arguments, caps=self._call.caps
        )
        questions = _Questions(self._ask_all)
        _handle_questions(questions.answer)
        try:
            with tool_errors(self._call.tool), timed("run"):
                return await self._call_tool(request)
        finally:
            _handle_questions(None)
            await questions.withdraw()

    async def _call_tool(self, request: CallMcpToolInput) -> McpAnswer:
        deadline = timedelta(seconds=self._call.options.deadline_seconds)
        return await workflow.execute_activity_method(
            McpActorActivities.call_mcp_tool,
            request,
            task_queue=RUNS_TASK_QUEUE,
            start_to_close_timeout=deadline,
            schedule_to_close_timeout=deadline,
            heartbeat_timeout=CALL_HEARTBEAT_TIMEOUT,
            retry_policy=CALL_RETRY_POLICY,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=f"call {request.tool} of {request.actor}",
        )


def _handle_questions(handler: Callable[[RelayedQuestion], Awaitable[RelayedAnswer]] | None) -> None:
    workflow.set_update_handler(  # pyright: ignore[reportUnknownMemberType]  # the SDK leaves a type open
        RELAY_UPDATE, handler
    )


class _Questions:
    """Questions that the server asks while its tool runs."""

    def __init__(self, ask_all: AskAll) -> None:
        self._ask_all = ask_all
        self._open: set[asyncio.Task[RelayedAnswer]] = set()

    async def answer(self, question: RelayedQuestion) -> RelayedAnswer:
        """Return the caller's answer; `cancel` if it does not come in time, or if the call ends first."""
        asking = asyncio.create_task(self._ask(question))
        self._open.add(asking)
        try:
            return await asking
        except asyncio.CancelledError:
            return RelayedAnswer(action="cancel")
        finally:
            self._open.discard(asking)

    async def withdraw(self) -> None:
        """Withdraw the questions that are still open."""
        for asking in self._open:
            asking.cancel()
        await workflow.wait_condition(workflow.all_handlers_finished)

    async def _ask(self, question: RelayedQuestion) -> RelayedAnswer:
        request = InputRequest(
            method=question.method,
            message=question.message,
            requested_schema=question.requested_schema,
            params=question.params,
        )
        patience = SAMPLING_PATIENCE if question.method == "sampling/createMessage" else None
        try:
            answers = await self._ask_all({question.key: request}, timeout=patience)
        except TimeoutError:
            return RelayedAnswer(action="cancel")
        answer = answers[question.key]
        # MCP has no action for a client that failed: for the Actor's server it closed the question.
        action = "cancel" if answer.action == "error" else answer.action
        return RelayedAnswer(action=action, content=answer.content)
