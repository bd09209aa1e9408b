"""How workflow code reads what is usually there at once: as a local activity first, see `activities.local_reads`."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from outlast.activities.local_reads import GOES_OVER, LOCAL_READ_LIMIT, LOCAL_READ_RETRY_POLICY
    from outlast.activities.runs.activities import READ_RETRY_POLICY

from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.call_activity import call_activity
from outlast.workflows.stubs.deadline import remaining
from outlast.workflows.stubs.failures import ToolError, envelope_of, envelope_of_failure
from outlast.workflows.stubs.task_log import timed

Input = TypeVar("Input")
Result = TypeVar("Result")


class QuickReader(Protocol):
    """How `read_quickly` is called."""

    async def __call__(
        self, call: ToolCall, method: Callable[[Any, Input], Awaitable[Result]], request: Input, *, summary: str
    ) -> Result:
        """The result of the read `method`."""
        ...


async def read_quickly(
    call: ToolCall, method: Callable[[Any, Input], Awaitable[Result]], request: Input, *, summary: str
) -> Result:
    """The result of a read that changes nothing and is paid by nobody: it may be made twice.

    It is a local activity. When that takes long, finds no room or fails in a way that passes, a normal one follows,
    which is retried until the call's deadline. Raises `ToolError` when it fails for good.
    """
    within = min(LOCAL_READ_LIMIT, remaining(call))
    try:
        with timed("fetch"):
            return await workflow.execute_local_activity_method(
                method,
                request,
                schedule_to_close_timeout=within,
                retry_policy=LOCAL_READ_RETRY_POLICY,
                summary=summary,
            )
    except ApplicationError as error:  # The SDK puts no `ActivityError` around the failure of a local activity.
        pause = _pause_before_retry(error)
        if pause is None:
            raise ToolError(envelope_of_failure(error, tool=call.tool)) from error
    except ActivityError as error:
        if is_cancelled_exception(error):
            raise
        if within < LOCAL_READ_LIMIT:  # The call's own time is over.
            raise ToolError(envelope_of(error, tool=call.tool)) from error
        pause = timedelta(0)
    if pause:
        await workflow.sleep(pause)
    return await call_activity(call, method, request, summary=summary)


def _pause_before_retry(error: ApplicationError) -> timedelta | None:
    """How long to wait before a normal activity takes over; None when the read has failed for good."""
    if error.type == GOES_OVER:
        return timedelta(0)
    return None if error.non_retryable else error.next_retry_delay or READ_RETRY_POLICY.initial_interval
