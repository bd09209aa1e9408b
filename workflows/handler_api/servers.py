"""Calls of tools of the operator's MCP servers: at most once, on the worker that has the session.

What follows when an answer is lost is decided here, by what the call was admitted with: the call is made again if that
is safe, or a `verify` of the configuration decides, or the call ends with `outcome_unknown`.
"""

import json
import re
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Protocol, TypeVar

from pydantic import JsonValue
from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType, is_cancelled_exception
from temporalio.exceptions import TimeoutError as ActivityTimeoutError
from temporalio.workflow import ActivityCancellationType

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.mcp_servers import contracts as mcp
from outlast.workflows.contracts.queues import SERVERS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import ServerCall, ToolCall
from outlast.workflows.handler_api.activity_calls import remaining, tool_errors
from outlast.workflows.handler_api.conversation import Outputs
from outlast.workflows.handler_api.failures import ToolError, envelope_of
from outlast.workflows.handler_api.observability import timed
from outlast.workflows.handler_api.platform import AskAll, Questions, handle_questions

with workflow.unsafe.imports_passed_through():
    from outlast.activities.heartbeat import HandedOver
    from outlast.activities.mcp_servers.servers import (
        CHECK_TIMEOUT,
        SERVER_CALL_HEARTBEAT_TIMEOUT,
        SERVER_CALL_RETRY_POLICY,
        McpServerActivities,
    )

OWN_QUEUE_TIMEOUT = timedelta(seconds=10)
"""A worker that does not begin a call on its own queue within this time is lost."""
_MAX_LOST_ANSWERS = 5
_MAX_MOVES = 20
_PLACEHOLDER = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


class AnswerLost(Exception):
    """The call was sent, and its answer was lost."""

    def __init__(self, reason: str, *, by_time: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.by_time = by_time
        """True if the time of the call is over."""


class _Answer(Protocol):
    @property
    def queue(self) -> str | None: ...
    @property
    def elsewhere(self) -> bool: ...


UseT = TypeVar("UseT", bound=mcp.SessionUse)
AnswerT = TypeVar("AnswerT", bound=_Answer)


async def on_its_worker(request: UseT, execute: Callable[[str, UseT], Awaitable[AnswerT]], *, tool: str) -> AnswerT:
    """Return the answer of the activity that `execute` runs on the worker that has the session.

    Raises `AnswerLost` if the request may have been executed, and `ToolError`.
    """
    queue, lost_queue = SERVERS_TASK_QUEUE, None
    for _ in range(_MAX_MOVES):
        placed = {"is_placed": queue != SERVERS_TASK_QUEUE, "lost_queue": lost_queue}
        try:
            answer = await execute(queue, request.model_copy(update=placed))
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            lost_queue = _lost_worker(error, queue, tool)
            queue = SERVERS_TASK_QUEUE
            continue
        if not answer.elsewhere:
            return answer
        queue = answer.queue or SERVERS_TASK_QUEUE
    message = f"The MCP server '{request.server}' was not called: no worker kept the session long enough."
    raise ToolError(ErrorEnvelope.transient(ErrorCategory.PLATFORM, tool, message))


def _lost_worker(error: ActivityError, queue: str, tool: str) -> str | None:
    """Return the queue of the worker that was lost before it sent the call. Raises `AnswerLost` or `ToolError`."""
    cause = error.cause
    if isinstance(cause, ApplicationError) and cause.type == ErrorCategory.OUTCOME_UNKNOWN:
        raise AnswerLost(envelope_of(error, tool=tool).message)
    is_own = queue != SERVERS_TASK_QUEUE
    if isinstance(cause, ApplicationError) and cause.type == HandedOver.__name__:
        return queue if is_own else None
    if not isinstance(cause, ActivityTimeoutError):
        raise ToolError(envelope_of(error, tool=tool)) from error
    if cause.type == TimeoutType.SCHEDULE_TO_START and is_own:
        return queue
    phase = _phase_of(cause)
    if phase.sent if phase is not None else cause.type == TimeoutType.START_TO_CLOSE:
        is_over = cause.type != TimeoutType.HEARTBEAT
        reason = "its deadline came before its answer." if is_over else "its worker was lost before it answered."
        raise AnswerLost(reason, by_time=is_over)
    if cause.type != TimeoutType.HEARTBEAT:
        raise ToolError(envelope_of(error, tool=tool)) from error
    return queue if is_own else phase.queue if phase else None


class McpServers:
    """Calls the tool of one call."""

    def __init__(self, call: ToolCall, server: ServerCall, outputs: Outputs, ask_all: AskAll) -> None:
        self._call = call
        self._server = server
        self._outputs = outputs
        self._ask_all = ask_all

    async def call(self, arguments: dict[str, JsonValue]) -> mcp.ServerAnswer:
        """Call the tool at most once, or as often as is safe. Questions of the server go to the caller.

        Raises `ToolError`, of the category `outcome_unknown` if the tool may have been executed.
        """
        questions = Questions(self._ask_all)
        handle_questions(questions.answer)
        try:
            with timed("run"):
                return await self._until_known(arguments)
        finally:
            handle_questions(None)
            await questions.withdraw()

    async def _until_known(self, arguments: dict[str, JsonValue]) -> mcp.ServerAnswer:
        server = self._server
        if server.idempotency_argument is not None:
            arguments = {**arguments, server.idempotency_argument: workflow.info().workflow_id}
        may_repeat = server.repeats_safely or server.idempotency_argument is not None
        for attempt in range(1, _MAX_LOST_ANSWERS + 1):
            try:
                return await self._once(self._request(server.tool, arguments))
            except AnswerLost as lost:
                if may_repeat and not lost.by_time and attempt < _MAX_LOST_ANSWERS:
                    continue
                if server.verify is None:
                    raise ToolError(self._unknown(lost.reason)) from None
                answer = await self._verified(arguments, lost)
                if answer is not None:
                    return answer
        raise ToolError(self._unknown("its answer was lost several times."))

    async def _once(self, request: mcp.CallServerToolInput) -> mcp.ServerAnswer:
        """Call the tool on the worker that has the session. Raises `AnswerLost` if the call may have been executed."""
        return await on_its_worker(request, self._execute, tool=self._call.tool)

    async def _execute(self, queue: str, request: mcp.CallServerToolInput) -> mcp.ServerAnswer:
        limit = remaining(self._call)
        return await workflow.execute_activity_method(
            McpServerActivities.call_server_tool,
            request,
            task_queue=queue,
            schedule_to_start_timeout=limit if queue == SERVERS_TASK_QUEUE else min(limit, OWN_QUEUE_TIMEOUT),
            start_to_close_timeout=limit,
            heartbeat_timeout=SERVER_CALL_HEARTBEAT_TIMEOUT,
            retry_policy=SERVER_CALL_RETRY_POLICY,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=f"call {request.tool} of {request.server}",
        )

    async def _verified(self, arguments: dict[str, JsonValue], lost: AnswerLost) -> mcp.ServerAnswer | None:
        """Return an answer if the call was executed, None if it was not. Raises `ToolError` if that stays unknown."""
        verify = self._server.verify
        assert verify is not None
        request = self._request(verify.tool, _filled(verify.arguments, arguments)).model_copy(
            update={"repeats_safely": True, "tells_loss": False}
        )
        try:
            found = await self._once(request)
            done = found.answer is not None and await self._is_done(verify.done, found.answer)
        except (AnswerLost, ToolError) as error:
            raise ToolError(self._unknown(f"{lost.reason} {verify.tool} did not decide it: {error}")) from None
        if found.answer is None or done is None:
            raise ToolError(self._unknown(f"{lost.reason} The answer of {verify.tool} did not decide it."))
        if not done:
            return None
        text = (
            f"The answer of {self._call.tool} was lost, but it was executed: the operator's check with {verify.tool} "
            "found its effect. The answer of that check follows."
        )
        block: dict[str, JsonValue] = {"type": "text", "text": text}
        return mcp.ServerAnswer(answer=found.answer.model_copy(update={"content": (block, *found.answer.content)}))

    async def _is_done(self, expression: str, answer: mcp.McpAnswer) -> bool | None:
        with tool_errors(self._call.tool):
            return await workflow.execute_activity_method(
                McpServerActivities.check_server_call,
                mcp.CheckDoneInput(expression=expression, answer=answer),
                task_queue=SERVERS_TASK_QUEUE,
                start_to_close_timeout=CHECK_TIMEOUT,
                schedule_to_close_timeout=remaining(self._call),
                summary=f"check whether {self._server.tool} was executed",
            )

    def _request(self, tool: str, arguments: dict[str, JsonValue]) -> mcp.CallServerToolInput:
        server = self._server
        return mcp.CallServerToolInput(
            caller_id=self._call.caller.id,
            server=server.server,
            tool=tool,
            arguments=arguments,
            session=server.session,
            session_key=server.session_key,
            repeats_safely=server.repeats_safely or server.idempotency_argument is not None,
            timeout_seconds=server.timeout_seconds,
            scope=self._outputs.scope,
            ttl_seconds=self._call.output.ttl_seconds,
            caller_secrets=self._call.caller.server_secrets,
        )

    def _unknown(self, reason: str) -> ErrorEnvelope:
        tool = self._call.tool
        message = f"It is unknown whether {tool} was executed: {reason} Its effect may have happened."
        verify = self._server.verify
        check = f"Check with {verify.tool}" if verify else f"Check with another tool of {self._server.server}"
        return ErrorEnvelope.permanent(
            ErrorCategory.OUTCOME_UNKNOWN,
            tool,
            message,
            hint=f"Do not repeat the call. {check} what has changed, or ask the user; call again only if nothing has.",
        )


def _phase_of(cause: ActivityTimeoutError) -> mcp.CallPhase | None:
    details = cause.last_heartbeat_details
    return mcp.CallPhase.model_validate(details[0]) if details else None


def _filled(template: JsonValue, arguments: dict[str, JsonValue]) -> dict[str, JsonValue]:
    filled = _with_arguments(template, arguments)
    return filled if isinstance(filled, dict) else {}


def _with_arguments(template: JsonValue, arguments: dict[str, JsonValue]) -> JsonValue:
    """Replace `{name}` in texts by that argument; a text that is one placeholder becomes the argument's value."""
    if isinstance(template, dict):
        return {key: _with_arguments(value, arguments) for key, value in template.items()}
    if isinstance(template, list):
        return [_with_arguments(value, arguments) for value in template]
    if not isinstance(template, str):
        return template
    whole = _PLACEHOLDER.fullmatch(template)
    if whole is not None and whole[1] in arguments:
        return arguments[whole[1]]
    return _PLACEHOLDER.sub(lambda found: _as_text(arguments.get(found[1], found[0])), template)


def _as_text(value: JsonValue) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
