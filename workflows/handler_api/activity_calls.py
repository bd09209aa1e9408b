"""Calls of activities from workflow code within the call's deadline, and starts of runs. Failures raise `ToolError`.

The result of a start is known also if the call is cancelled in the meantime. A run starts within the workflow's first
task if that is safe, else in a normal activity (docs/decisions/0024-local-starts.md, 0031-resurrection.md).
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Any, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, is_cancelled_exception
from temporalio.workflow import ActivityCancellationType, ActivityHandle

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.runs import contracts as runs
from outlast.workflows.contracts.search_attributes import ACTOR
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.handler_api.failures import (
    ToolError,
    envelope_of,
    envelope_of_failure,
    is_deadline,
    is_definite_refusal,
)
from outlast.workflows.handler_api.observability import current_task, timed

with workflow.unsafe.imports_passed_through():
    from outlast.activities.local_reads import GOES_OVER, LOCAL_READ_LIMIT, LOCAL_READ_RETRY_POLICY, WentOver
    from outlast.activities.runs import activities
    from outlast.activities.runs.resurrection import RunResurrections

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
    retry_policy: RetryPolicy = activities.READ_RETRY_POLICY,
) -> Result:
    """Run a short activity. Raises `ToolError` when it fails for good."""
    with tool_errors(call.tool), timed("fetch"):
        return await workflow.execute_activity_method(
            method,
            request,
            start_to_close_timeout=activities.READ_ATTEMPT_TIMEOUT,
            schedule_to_close_timeout=remaining(call),
            heartbeat_timeout=activities.READ_HEARTBEAT_TIMEOUT,
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
    return None if error.non_retryable else error.next_retry_delay or activities.READ_RETRY_POLICY.initial_interval


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
        retry_policy: RetryPolicy = activities.READ_RETRY_POLICY,
    ) -> Result:
        summary = summary[:_MAX_SUMMARY_CHARS]
        return await call_activity(self._call, method, request, summary=summary, retry_policy=retry_policy)


_FIRST_ATTEMPT_EVENTS = 5
"""Events up to the start of a workflow's first task: started, scheduled, begun, and at most two signals. A repeated
task has at least six, the failure of the first one and two more. A replay may see more at the same place, so commands
must not depend on it."""
T = TypeVar("T")


class NotStartedError(Exception):
    """A run was not started, or it is not known whether it was."""

    def __init__(self, envelope: ErrorEnvelope, *, is_certain: bool, by_deadline: bool = False) -> None:
        """`is_certain`: no run can have been started."""
        super().__init__(envelope.message)
        self.envelope = envelope
        self.is_certain = is_certain
        self.by_deadline = by_deadline


class RunStarts:
    """Starts the runs of one call. Created with the workflow, to see whether the workflow's first task is repeated."""

    def __init__(self, call: ToolCall) -> None:
        self._call = call
        self._starts = 0
        self._task_began = workflow.now()
        self.is_repeated = workflow.info().get_current_history_length() > _FIRST_ATTEMPT_EVENTS
        """True if an attempt of the workflow's first task was lost before this one."""

    @property
    def may_have_begun(self) -> bool:
        """True if a worker that was lost with the workflow's first task may have made the call's first start.

        Only for a call that was cancelled before its first step, which then is its last one: no replay sees more.
        """
        return self.is_repeated and self._starts == 0 and self._call.caps is None

    @property
    def began(self) -> datetime:
        """Earliest possible time of the call's first start: a lost workflow task may have begun long ago."""
        return workflow.info().workflow_start_time if self.is_repeated else self._task_began

    async def start(self, request: runs.StartRunInput, has_started: Callable[[runs.RunState], None]) -> None:
        """Start a run, and call `has_started` with it, also if the call is cancelled. Raises `NotStartedError`."""
        may_have_begun = False
        self._starts += 1
        if self._may_be_local(request):
            went_over = await self._start_locally(request, has_started)
            if went_over is None:
                return
            may_have_begun = went_over.may_have_acted
        since = self.began if may_have_begun else None
        await self._start_normally(request.model_copy(update={"may_have_begun_since": since}), has_started)

    def _may_be_local(self, request: runs.StartRunInput) -> bool:
        """Decide on a local attempt: the same in every attempt of the workflow task, and in every replay.

        Its terms decide whether it may start the run. Checking spending limits takes longer: a ledger is asked.
        """
        in_time = workflow.info().task_timeout >= runs.LEAST_TASK_TIMEOUT
        # If no task of the workflow is ever completed, only this attribute shows where to look for its run.
        is_known = workflow.info().typed_search_attributes.get(ACTOR) == request.spec.actor
        return self._starts == 1 and in_time and is_known and request.caps is None

    def _terms(self) -> runs.LocalTerms:
        is_first_step = workflow.now() == self._task_began
        may_be_repeated = workflow.unsafe.is_replaying() or self.is_repeated
        return runs.LocalTerms(
            task_began=self._task_began, is_first_step=is_first_step, is_repeated=is_first_step and may_be_repeated
        )

    async def _start_locally(
        self, request: runs.StartRunInput, has_started: Callable[[runs.RunState], None]
    ) -> WentOver | None:
        """Start a run in a local activity. Returns None, or the facts for the normal activity that has to follow."""
        handle = workflow.start_local_activity_method(
            activities.RunActivities.start_run,
            request.model_copy(update={"local": self._terms()}),
            schedule_to_close_timeout=min(runs.LOCAL_START_LIMIT, remaining(self._call)),
            retry_policy=LOCAL_READ_RETRY_POLICY,
            summary=f"start {request.spec.actor}",
        )
        try:
            has_started(await outlasting_cancellation(handle, has_started))
        except ApplicationError as error:  # The SDK puts no `ActivityError` around the failure of a local activity.
            if error.type == GOES_OVER:
                return WentOver.model_validate(error.details[0])
            envelope = envelope_of_failure(error, tool=self._call.tool)
            # An error without a category is no refusal: the run may exist, and its state could not be returned.
            is_certain = envelope.category is not ErrorCategory.UNKNOWN
            if error.non_retryable:
                raise NotStartedError(envelope, is_certain=is_certain) from error
            if envelope.category is not ErrorCategory.CAPACITY:
                # A lack of capacity is waited for in an activity, which reports it.
                await workflow.sleep(error.next_retry_delay or activities.START_RETRY_POLICY.initial_interval)
            return WentOver(may_have_acted=not is_certain)
        except ActivityError:
            return WentOver(may_have_acted=True)
        return None

    async def _start_normally(self, request: runs.StartRunInput, has_started: Callable[[runs.RunState], None]) -> None:
        handle = workflow.start_activity_method(
            activities.RunActivities.start_run,
            request,
            start_to_close_timeout=activities.START_ATTEMPT_TIMEOUT,
            schedule_to_close_timeout=remaining(self._call),
            heartbeat_timeout=activities.START_HEARTBEAT_TIMEOUT,
            retry_policy=activities.START_RETRY_POLICY,
            cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            summary=f"start {request.spec.actor}",
        )
        try:
            has_started(await outlasting_cancellation(handle, has_started, cancels=True))
        except ActivityError as error:
            searched = request.may_have_begun_since is not None
            raise NotStartedError(
                envelope_of(error, tool=self._call.tool),
                is_certain=is_definite_refusal(error, searched=searched),
                by_deadline=is_deadline(error),
            ) from error


async def resurrected(
    call: ToolCall, request: runs.ResurrectRunInput, has_decided: Callable[[runs.ResurrectResult], None]
) -> runs.ResurrectResult:
    """Resurrect a run, and call `has_decided` with the result, also if the call is cancelled.

    Raises `ActivityError`; the run may have been resurrected nevertheless.
    """
    handle = workflow.start_activity_method(
        RunResurrections.resurrect_run,
        request,
        start_to_close_timeout=activities.START_ATTEMPT_TIMEOUT,
        schedule_to_close_timeout=remaining(call),
        heartbeat_timeout=activities.START_HEARTBEAT_TIMEOUT,
        retry_policy=activities.START_RETRY_POLICY,
        cancellation_type=ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
        summary=f"resurrect run {request.run_id}",
    )
    result = await outlasting_cancellation(handle, has_decided, cancels=True)
    has_decided(result)
    return result


async def outlasting_cancellation(
    handle: ActivityHandle[T], has_ended: Callable[[T], None], *, cancels: bool = False
) -> T:
    """Return the result. If the call is cancelled, `has_ended` gets a result that came nevertheless.

    With `cancels`, the activity is cancelled then; a local one ends soon by itself.
    """
    try:
        return await asyncio.shield(handle)
    except asyncio.CancelledError:
        if cancels:
            handle.cancel()
        with suppress(ActivityError, ApplicationError):
            has_ended(await handle)
        raise
