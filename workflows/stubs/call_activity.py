"""One way for workflow code to read from outside: an activity with the call's deadline, its failure as `ToolError`."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from outlast.activities.runs.activities import READ_ATTEMPT_TIMEOUT, READ_HEARTBEAT_TIMEOUT, READ_RETRY_POLICY

from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.deadline import remaining
from outlast.workflows.stubs.failures import ToolError, envelope_of

Input = TypeVar("Input")
Result = TypeVar("Result")


async def read(
    call: ToolCall,
    method: Callable[[Any, Input], Awaitable[Result]],
    request: Input,
    *,
    summary: str,
    retry_policy: RetryPolicy = READ_RETRY_POLICY,
) -> Result:
    """What the activity `method` answers to `request`. Raises `ToolError` when it is refused."""
    try:
        return await workflow.execute_activity_method(
            method,
            request,
            start_to_close_timeout=READ_ATTEMPT_TIMEOUT,
            schedule_to_close_timeout=remaining(call),
            heartbeat_timeout=READ_HEARTBEAT_TIMEOUT,
            retry_policy=retry_policy,
            summary=summary,
        )
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        raise ToolError(envelope_of(error, tool=call.tool)) from error
