"""How workflow code calls an activity: within the call's deadline, and with the failure as a `ToolError`."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from outlast.activities.runs.activities import READ_ATTEMPT_TIMEOUT, READ_HEARTBEAT_TIMEOUT, READ_RETRY_POLICY

from outlast.activities.failures.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.deadline import remaining
from outlast.workflows.stubs.failures import ToolError, envelope_of
from outlast.workflows.stubs.task_log import timed

Input = TypeVar("Input")
Result = TypeVar("Result")


@contextmanager
def tool_errors(tool: str, describe: Callable[[ActivityError], ErrorEnvelope] | None = None) -> Generator[None]:
    """Turn the failure of an activity in the block into a `ToolError` of `tool`. A cancellation is left as it is.

    `describe` makes the envelope where the activity's own failure does not say enough.
    """
    try:
        yield
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        raise ToolError(describe(error) if describe else envelope_of(error, tool=tool)) from error


async def call_activity(
    call: ToolCall,
    method: Callable[[Any, Input], Awaitable[Result]],
    request: Input,
    *,
    summary: str,
    retry_policy: RetryPolicy = READ_RETRY_POLICY,
) -> Result:
    """The result of a short activity. Raises `ToolError` when it fails for good."""
    with tool_errors(call.tool), timed("fetch"):
        return await workflow.execute_activity_method(
            method,
            request,
            start_to_close_timeout=READ_ATTEMPT_TIMEOUT,
            schedule_to_close_timeout=remaining(call),
            heartbeat_timeout=READ_HEARTBEAT_TIMEOUT,
            retry_policy=retry_policy,
            summary=summary,
        )
