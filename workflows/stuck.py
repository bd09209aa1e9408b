"""EndStuckWorkflow: deals with a workflow that cannot continue, ends what it had started, and notifies its caller.

A worker starts one for each stuck workflow (worker/stuck_tasks.py).
"""

from datetime import timedelta
from decimal import Decimal

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from outlast.activities.runs.activities import (
        ABORT_ATTEMPT_TIMEOUT,
        ABORT_RETRY_POLICY,
        START_HEARTBEAT_TIMEOUT,
        RunActivities,
    )
    from outlast.activities.schedules.activities import (
        PATIENT_RETRY_POLICY,
        QUICK_ATTEMPT_TIMEOUT,
        FiringActivities,
        FiringStartActivities,
    )
    from outlast.activities.stuck_tasks.activities import (
        CANCEL_ITEMS_HEARTBEAT_TIMEOUT,
        CANCEL_ITEMS_TIMEOUT,
        END_ATTEMPT_TIMEOUT,
        END_RETRY_POLICY,
        StuckTaskActivities,
    )

from outlast.activities.contracts import ErrorCategory
from outlast.activities.schedules.contracts import PauseInput, Started
from outlast.activities.stuck_tasks.contracts import EndStuckInput, StuckEnd, StuckFiring
from outlast.activities.webhooks.contracts import error_data, task_data
from outlast.workflows.contracts.queues import SCHEDULES_TASK_QUEUE
from outlast.workflows.contracts.sessions import TASK_COMPLETED_SIGNAL, session_workflow_id
from outlast.workflows.contracts.tool_calls import TaskCompleted, TaskStatus
from outlast.workflows.schedules.contracts import FiringInput, FiringOutcome, FiringStatus
from outlast.workflows.schedules.firing import reason_to_pause
from outlast.workflows.signatures import signature
from outlast.workflows.webhooks.announcing import TASK_ENDS, announce

_LATE_ITEMS = timedelta(seconds=20)
"""The last round of a batch learns from its heartbeats that the batch has ended, and starts items until then."""
_NOT_COUNTED = (
    "Paused after a firing that could not continue and was ended: its cost is not counted in the schedule's budget. "
    "Check its cost, and resume the schedule."
)


@workflow.defn
class EndStuckWorkflow:
    """Its result describes the actions taken. It ends after everything that the stuck workflow started has ended."""

    @workflow.run
    async def run(self, request: EndStuckInput) -> StuckEnd:
        """Deal with the workflow, then end what it had started, for as long as it takes."""
        if request.grace_seconds:
            await workflow.sleep(request.grace_seconds)
        ended = await workflow.execute_activity_method(
            StuckTaskActivities.end_stuck_task,
            request,
            start_to_close_timeout=END_ATTEMPT_TIMEOUT,
            retry_policy=END_RETRY_POLICY,
            summary=f"end {request.workflow_id}",
        )
        await self._inform_session(request, ended)
        if (ended.subject or ended.firing or ended.batch_id) and workflow.patched("ends-of-every-type"):
            await _end_further(ended)
        for run in ended.runs:
            await workflow.execute_activity_method(
                RunActivities.abort_run,
                run,
                start_to_close_timeout=ABORT_ATTEMPT_TIMEOUT,
                heartbeat_timeout=START_HEARTBEAT_TIMEOUT,
                retry_policy=ABORT_RETRY_POLICY,
                summary=f"abort {run.run_id or 'whatever was started'}",
            )
        return ended

    async def _inform_session(self, request: EndStuckInput, ended: StuckEnd) -> None:
        """Send the task-completed signal that the task can no longer send itself."""
        if ended.error is None or ended.session_id is None or ended.caller_id is None or not ended.tool:
            return
        event = TaskCompleted(
            task_id=request.workflow_id,
            tool=ended.tool,
            status=_status(ended),
            error_signature=signature(ended.error),
            error=ended.error,
            message=ended.error.message[:200],
        )
        session = workflow.get_external_workflow_handle(session_workflow_id(ended.caller_id, ended.session_id))
        try:
            await session.signal(TASK_COMPLETED_SIGNAL, event)
        except ApplicationError as error:
            workflow.logger.warning("The session of %s did not accept the signal: %s", request.workflow_id, error)


def _status(ended: StuckEnd) -> TaskStatus:
    is_cancelled = ended.error is not None and ended.error.category is ErrorCategory.CANCELLED
    return TaskStatus.CANCELLED if is_cancelled else TaskStatus.FAILED


async def _end_further(ended: StuckEnd) -> None:
    """Notify the webhooks of a task; cancel what a firing or a batch has started."""
    await _notify_webhooks(ended)
    if ended.firing is not None:
        await _end_firing(ended, ended.firing)
    if ended.batch_id is not None:
        await _cancel_items(ended.batch_id)
        await workflow.sleep(_LATE_ITEMS)
        await _cancel_items(ended.batch_id)


async def _notify_webhooks(ended: StuckEnd) -> None:
    """Send the event of a task's end."""
    subject, status = ended.subject, _status(ended)
    if subject is None or ended.caller_id is None:
        return
    await announce(
        ended.listeners,
        TASK_ENDS[status],
        task_data(subject, status.value, error=error_data(ended.error)),
        caller_id=ended.caller_id,
        about=(subject.task_id, ended.first_run_id),
    )


async def _cancel_items(batch_id: str) -> None:
    await workflow.execute_activity_method(
        StuckTaskActivities.cancel_items,
        batch_id,
        start_to_close_timeout=CANCEL_ITEMS_TIMEOUT,
        heartbeat_timeout=CANCEL_ITEMS_HEARTBEAT_TIMEOUT,
        retry_policy=END_RETRY_POLICY,
        summary=f"cancel the items of {batch_id}",
    )


async def _end_firing(ended: StuckEnd, firing: StuckFiring) -> None:
    """Cancel what the firing has started, and pause its schedule where it may not continue."""
    started = firing.started or await _found(firing)
    if started is not None:
        await workflow.execute_activity_method(
            FiringActivities.cancel_firing,
            started,
            start_to_close_timeout=QUICK_ATTEMPT_TIMEOUT,
            retry_policy=PATIENT_RETRY_POLICY,
            summary=f"cancel {started.id}",
        )
    try:
        order = FiringInput.model_validate(firing.order)
    except ValueError:
        return  # What was to be done cannot be read: nothing was started.
    note = _reason_to_pause(order, ended, started)
    if note is not None:
        await workflow.execute_activity_method(
            FiringActivities.pause_schedule,
            PauseInput(temporal_id=order.temporal_id, note=note),
            start_to_close_timeout=QUICK_ATTEMPT_TIMEOUT,
            retry_policy=PATIENT_RETRY_POLICY,
            summary="pause the schedule",
        )


async def _found(firing: StuckFiring) -> Started | None:
    """Result of a start whose response is not in the history."""
    if firing.start is None:
        return None
    try:
        found = await workflow.execute_activity_method(
            FiringStartActivities.start_firing,
            firing.start,
            task_queue=SCHEDULES_TASK_QUEUE,
            start_to_close_timeout=QUICK_ATTEMPT_TIMEOUT,
            retry_policy=PATIENT_RETRY_POLICY,
            summary="find what was started",
        )
    except ActivityError as error:
        workflow.logger.error("The task or batch started by an ended firing is unknown: %s", error.cause)
        return None
    return found.started


def _reason_to_pause(order: FiringInput, ended: StuckEnd, started: Started | None) -> str | None:
    if started is not None and order.spending.budget_usd is not None:
        return _NOT_COUNTED
    outcome = FiringOutcome(
        status=FiringStatus.CANCELLED if _status(ended) is TaskStatus.CANCELLED else FiringStatus.FAILED,
        started=started,
        spent_usd=Decimal(0),
        error=ended.error,
    )
    return reason_to_pause(order, outcome)
