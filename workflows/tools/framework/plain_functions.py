"""Plain functions of tools: their context, and the activity that runs them, which finds them by the tool's name."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal

from pydantic import BaseModel, Field, JsonValue
from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.workflow import ActivityCancellationType

from outlast.activities.contracts import Contract
from outlast.workflows.contracts.queues import FUNCTIONS_TASK_QUEUE
from outlast.workflows.contracts.tool_calls import Progress, ToolResult
from outlast.workflows.handler_api.activity_calls import remaining, tool_errors
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.observability import timed
from outlast.workflows.tools.framework.phases import PlainFunction, Reply

MAX_PROGRESS_CHARS = 500


def _ignore(_progress: Progress) -> None:
    """Ignore progress of functions that are called without a task, as in tests."""


@dataclass(frozen=True)
class ToolContext:
    """The call of a plain function, for functions with a keyword parameter `context`."""

    task_id: str
    caller_id: str
    """ID of the caller, for example `key:ann`. It contains no secret."""
    session_id: str | None = None
    """Conversation of the call, if any."""
    attempt: int = 1
    """Number of the attempt: above 1 after a retryable failure, or after the death of a worker."""
    report: Callable[[Progress], None] = _ignore
    """Receiver of `progress`."""

    def progress(self, done: float, *, total: float | None = None, message: str = "") -> None:
        """Show the caller the progress of the function, in any unit; the message in at most 500 characters.

        Call it as often as you like, from the function's own event loop: only the latest progress is sent, once per
        `OUTLAST_PROGRESS_SECONDS`. It adds nothing to the task's history.
        """
        self.report(Progress(done=done, total=total, message=message[:MAX_PROGRESS_CHARS]))


RUN_PLAIN_FUNCTION = "run_plain_function"
HEARTBEAT_TIMEOUT = timedelta(seconds=10)

Step = Literal["server", "before", "after", "merge"]


class PlainReply(Contract):
    """A `Reply` in the input of an activity."""

    content: dict[str, JsonValue]
    parameters: dict[str, JsonValue]
    answered_by: str | None = None


class PlainFunctionInput(Contract):
    """Input of the activity: the step of a tool, and its arguments."""

    tool: str
    mode: str
    step: Step
    arguments: dict[str, JsonValue]
    reply: PlainReply | None = Field(default=None, description="What the client has answered, for steps after it.")
    decided: ToolResult | None = Field(default=None, description="For `merge`: the answer of the step `server`.")
    caller_id: str
    session_id: str | None = None


class PlainFunctionResult(Contract):
    """The result of a plain function."""

    result: ToolResult
    is_object: bool = Field(
        default=False, description="Whether it was a dict or a model: for `before`, what is handed."
    )


async def run_plain_function(
    ctx: HandlerContext, step: Step, function: PlainFunction, *more: ToolResult | Reply[Any]
) -> PlainFunctionResult:
    """Run the function as an activity, with an earlier step's result or the reply where the step takes them.

    Raises `ToolError` when it fails for good.
    """
    call = ctx.call
    request = PlainFunctionInput(
        tool=call.tool,
        mode=call.mode,
        step=step,
        arguments=call.arguments,
        reply=next((_as_contract(one) for one in more if isinstance(one, Reply)), None),
        decided=next((one for one in more if isinstance(one, ToolResult)), None),
        caller_id=call.caller.id,
        session_id=call.session_id,
    )
    with tool_errors(call.tool), timed("run"):
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
            summary=f"{step} of {call.tool}",
        )


def _as_contract(reply: Reply[Any]) -> PlainReply:
    answer = reply.answer
    content = answer.model_dump(mode="json", by_alias=True) if isinstance(answer, BaseModel) else answer
    return PlainReply(content=content, parameters=reply.parameters, answered_by=reply.answered_by)
