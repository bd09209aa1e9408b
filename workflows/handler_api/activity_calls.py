"""Calls of activities from workflow code, within the call's deadline. They raise `ToolError` for failures."""

from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from outlast.activities.local_reads import GOES_OVER, LOCAL_READ_LIMIT, LOCAL_READ_RETRY_POLICY
    from outlast.activities.runs.activities import READ_ATTEMPT_TIMEOUT, READ_HEARTBEAT_TIMEOUT, READ_RETRY_POLICY

from outlast.activities.contracts import ErrorEnvelope
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.handler_api.failures import ToolError, envelope_of, envelope_of_failure
from outlast.workflows.handler_api.observability import current_task, timed

Input = TypeVar("Input")
Result = TypeVar("Result")


@contextmanager
def tool_errors(tool: str, describe: Callable[[ActivityError], ErrorEnvelope] | None = None) -> Generator[None]:
    """Turn the failure of an activity in the block into a `ToolError` of `tool`; re-raise a cancellation.

    `describe` makes the envelope if that of the activity is not enough.
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
    """Run a short activity. Raises `ToolError` when it fails for good."""
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


async def read_quickly(
    call: ToolCall, method: Callable[[Any, Input], Awaitable[Result]], request: Input, *, summary: str
) -> Result:
    """Make a read that changes nothing and costs nothing, so that it may be made twice.

    It is a local activity. If that is slow, finds no capacity or fails temporarily, a normal activity follows, which is
    retried until the call's deadline. Raises `ToolError` when it fails for good.
    """
    within = min(LOCAL_READ_LIMIT, remaining(call))
    try:
        with timed("fetch"):
            return await workflow.execute_local_activity_method(
                method, request, schedule_to_close_timeout=within, retry_policy=LOCAL_READ_RETRY_POLICY, summary=summary
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
    """Return the pause before the normal activity; None if the read has failed for good."""
    if error.type == GOES_OVER:
        return timedelta(0)
    return None if error.non_retryable else error.next_retry_delay or READ_RETRY_POLICY.initial_interval


_SHORTEST_TIMEOUT = timedelta(seconds=1)
"""Temporal accepts no shorter one."""


def began_at() -> datetime:
    """Return the time at which the current workflow began to work. A queued task counts from its release."""
    task = current_task()
    return task.began_at if task else workflow.info().start_time


def remaining(call: ToolCall) -> timedelta:
    """Return the time until the deadline of `call`, at least one second.

    Time in the queue, or waiting for the client, does not count.
    """
    task = current_task()
    waited = task.waited_for_client if task else timedelta(0)
    deadline = began_at() + timedelta(seconds=call.options.deadline_seconds) + waited
    return max(deadline - workflow.now(), _SHORTEST_TIMEOUT)


_MAX_SUMMARY_CHARS = 100


class CallActivities:
    """Base of what handlers call: it acts for the caller of one call. Methods raise `ToolError` when they fail."""

    def __init__(self, call: ToolCall) -> None:
        self._call = call

    async def _read(self, method: Callable[[Any, Input], Awaitable[Result]], request: Input, summary: str) -> Result:
        return await read_quickly(self._call, method, request, summary=summary[:_MAX_SUMMARY_CHARS])

    async def _do(
        self,
        method: Callable[[Any, Input], Awaitable[Result]],
        request: Input,
        summary: str,
        retry_policy: RetryPolicy = READ_RETRY_POLICY,
    ) -> Result:
        summary = summary[:_MAX_SUMMARY_CHARS]
        return await call_activity(self._call, method, request, summary=summary, retry_policy=retry_policy)
