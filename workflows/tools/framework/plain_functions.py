"""Plain functions of tools, from workflow code: the activity that runs them finds them by the tool's name."""

from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError
from temporalio.workflow import ActivityCancellationType

from outlast.activities.contracts import Contract, ErrorCategory, ErrorEnvelope
from outlast.activities.stuck_tasks.contracts import TOOL_CHANGED
from outlast.workflows.contracts.queues import FUNCTIONS_TASK_QUEUE
from outlast.workflows.contracts.steps import Wait
from outlast.workflows.contracts.tool_calls import AdmittedTool, ToolResult
from outlast.workflows.handler_api.activity_calls import remaining, tool_errors
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError, envelope_of
from outlast.workflows.handler_api.observability import timed
from outlast.workflows.tools.framework.calls import InnerCallInput, rules_for_program
from outlast.workflows.tools.framework.phases import PlainFunction, Reply
from outlast.workflows.tools.framework.waits import OpenWaits, wait_out

RUN_PLAIN_FUNCTION = "run_plain_function"
DECIDE_APPROVAL = "decide_approval"
HEARTBEAT_TIMEOUT = timedelta(seconds=10)
CHANGED_PAUSE = timedelta(seconds=5)
"""Pause before such an activity is scheduled again."""

Step = Literal["server", "before", "after", "merge"]


class PlainReply(Contract):
    """A `Reply` in the input of an activity."""

    content: dict[str, JsonValue]
    parameters: dict[str, JsonValue]
    answered_by: str | None = None


class ApprovalInput(Contract):
    """Input of the activity that decides on an approval."""

    tool: str
    mode: str
    arguments: dict[str, JsonValue]
    admitted_tool: AdmittedTool | None = None
    caller_id: str = ""


class PlainFunctionInput(Contract):
    """Input of the activity: the step of a tool, and its arguments."""

    tool: str
    mode: str
    step: Step
    arguments: dict[str, JsonValue]
    reply: PlainReply | None = Field(default=None, description="What the client has answered, for steps after it.")
    decided: ToolResult | None = Field(default=None, description="For `merge`: the answer of the step `server`.")
    admitted_tool: AdmittedTool | None = None
    resumed: bool = Field(default=False, description="Whether the function has run before, up to a wait.")
    caller_id: str
    session_id: str | None = None
    program: InnerCallInput | None = Field(default=None, description="For a program: the rules for its calls.")


class PlainFunctionResult(Contract):
    """The result of a plain function, or what it waits for."""

    result: ToolResult
    waits: tuple[Wait, ...] = Field(default=(), description="Not empty: the function runs again when all are over.")
    continues_on_any: bool = Field(default=False, description="It runs again when one of its waits is over.")
    is_object: bool = Field(
        default=False, description="Whether it was a dict or a model: for `before`, what is handed."
    )


class ApprovalDecision(Contract):
    """Whether a call needs its tool's approval, and the question. Decided once, whatever becomes of the tool."""

    is_due: bool
    message: str | None = None
    seconds: float = Field(default=0, description="Longest wait for an answer.")


async def decide_approval(ctx: HandlerContext) -> ApprovalDecision:
    """Have the tool's author decide whether the call needs an approval. Raises `ToolError` when this fails."""
    call = ctx.call
    request = ApprovalInput(
        tool=call.tool,
        mode=call.mode,
        arguments=call.arguments,
        admitted_tool=call.admitted_tool,
        caller_id=call.caller.id,
    )
    while True:
        try:
            with tool_errors(call.tool):
                return await workflow.execute_activity(
                    DECIDE_APPROVAL,
                    request,
                    result_type=ApprovalDecision,
                    task_queue=FUNCTIONS_TASK_QUEUE,
                    start_to_close_timeout=timedelta(seconds=30),
                    schedule_to_close_timeout=remaining(call),
                    retry_policy=RetryPolicy(maximum_attempts=5),  # a condition that hangs would hang again
                    summary=f"approval of {call.tool}",
                )
        except ToolError as error:
            if not _is_of_changed_tool(error):
                raise
        await workflow.sleep(CHANGED_PAUSE)


def _is_of_changed_tool(error: ToolError) -> bool:
    """Return whether an activity failed because its worker does not have the tool as the call needs it.

    On a worker that lacks it, the workflow does not get this far: see `ToolChanged`.
    """
    failed = error.__cause__
    cause = failed.cause if isinstance(failed, ActivityError) else None
    return isinstance(cause, ApplicationError) and cause.type == TOOL_CHANGED


async def run_plain_function(
    ctx: HandlerContext, step: Step, function: PlainFunction, *more: ToolResult | Reply[Any]
) -> PlainFunctionResult:
    """Run the function as an activity, with an earlier step's result or the reply where the step takes them.

    A function that waits ends its activity, and runs again afterwards. Raises `ToolError` when it fails for good.
    """
    call = ctx.call
    request = PlainFunctionInput(
        tool=call.tool,
        mode=call.mode,
        step=step,
        arguments=call.arguments,
        reply=next((_as_contract(one) for one in more if isinstance(one, Reply)), None),
        decided=next((one for one in more if isinstance(one, ToolResult)), None),
        admitted_tool=call.admitted_tool,
        caller_id=call.caller.id,
        session_id=call.session_id,
        program=rules_for_program(ctx),
    )
    waits = OpenWaits(ctx)
    try:
        return await _to_end(ctx, function, request, waits)
    finally:
        await waits.cancel()


async def _to_end(
    ctx: HandlerContext, function: PlainFunction, request: PlainFunctionInput, waits: OpenWaits
) -> PlainFunctionResult:
    while True:
        try:
            result = await _attempts(ctx, function, request)
        except ToolError as error:
            if not _is_of_changed_tool(error):
                raise
            await workflow.sleep(CHANGED_PAUSE)
        else:
            if not result.waits:
                return result
            if result.continues_on_any:
                await waits.next(result.waits)
            else:
                await wait_out(ctx, result.waits)
        request = request.model_copy(update={"resumed": True})


async def _attempts(ctx: HandlerContext, function: PlainFunction, request: PlainFunctionInput) -> PlainFunctionResult:
    call = ctx.call
    with tool_errors(call.tool, lambda error: _envelope_of(error, call.tool, function)), timed("run"):
        return await workflow.execute_activity(
            RUN_PLAIN_FUNCTION,
            request,
            result_type=PlainFunctionResult,
            task_queue=FUNCTIONS_TASK_QUEUE,
            start_to_close_timeout=function.timeout,
            schedule_to_close_timeout=remaining(call),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RetryPolicy(
                initial_interval=function.backoff,
                maximum_attempts=function.attempts,
                maximum_interval=max(function.backoff, timedelta(seconds=30)),
            ),
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=f"{request.step} of {call.tool}",
        )


def _envelope_of(error: ActivityError, tool: str, function: PlainFunction) -> ErrorEnvelope:
    envelope = envelope_of(error, tool=tool)
    kind = error.cause.type if isinstance(error.cause, ActivityTimeoutError) else None
    hints: dict[TimeoutType, str] = {
        TimeoutType.START_TO_CLOSE: "The limit is the option `timeout` of the tool, "
        f"{function.timeout.total_seconds():g} seconds. The tool's author can raise it.",
        TimeoutType.HEARTBEAT: "If no worker has ended, the tool's function blocks the event loop: an `async def` "
        "function must await, and a function that waits otherwise is written as `def`.",
    }
    if kind is None:
        return envelope
    if function.attempts > 1:
        return envelope.model_copy(update={"hint": hints.get(kind, envelope.hint)})
    message = f"{envelope.message} It is unknown whether it has done its work."
    check = "Check what it has changed before you call it again. It is not repeated, because its `retries` are 0."
    hint = f"{check} {hints[kind]}" if kind in hints else check
    return ErrorEnvelope.permanent(ErrorCategory.OUTCOME_UNKNOWN, tool, message, hint=hint)


def _as_contract(reply: Reply[Any]) -> PlainReply:
    answer = reply.answer
    content = answer.model_dump(mode="json", by_alias=True) if isinstance(answer, BaseModel) else answer
    return PlainReply(content=content, parameters=reply.parameters, answered_by=reply.answered_by)
