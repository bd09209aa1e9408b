"""Converts Temporal's description of a batch's workflow to a `Batch`. Needs no worker."""

from temporalio.client import (
    Client,
    WorkflowExecution,
    WorkflowExecutionDescription,
    WorkflowExecutionStatus,
    WorkflowFailureError,
)

from outlast.activities.batches.contracts import BatchOptions, BatchState, Counts, StopReason
from outlast.activities.batches.storage import results_locator
from outlast.activities.contracts import ErrorEnvelope
from outlast.activities.stuck_tasks.histories import readable
from outlast.api.temporal.history_details import CARRY_ON_BATCH, was_cancelled
from outlast.api.temporal.task_view import failing_step, latest_heartbeat, memo_model, owner_of, workflow_url
from outlast.contracts.batches import Batch
from outlast.worker.ended_runs import batch_outcome
from outlast.workflows.batches.contracts import BatchOutcome, BatchProgress, BatchStatus, BatchSummary
from outlast.workflows.contracts import memo, search_attributes

_ENDED_ABNORMALLY = frozenset(
    {WorkflowExecutionStatus.FAILED, WorkflowExecutionStatus.TERMINATED, WorkflowExecutionStatus.TIMED_OUT}
)


async def batch_from(
    execution: WorkflowExecution,
    *,
    outcome: BatchOutcome | None = None,
    error: ErrorEnvelope | None = None,
    ui_url: str | None,
    namespace: str,
) -> Batch | None:
    """Describe the batch behind `execution`; None for a workflow of another kind.

    It has ended with `outcome`, or was ended with `error` because it was stuck.
    """
    summary = await memo_model(execution, memo.BATCH, BatchSummary)
    owner = owner_of(execution)
    if summary is None or owner is None:
        return None
    progress = await memo_model(execution, memo.BATCH_PROGRESS, BatchProgress) or BatchProgress.nothing()
    state = outcome.state if outcome is not None else None
    if outcome is None and isinstance(execution, WorkflowExecutionDescription):
        state = await latest_heartbeat(execution, CARRY_ON_BATCH, BatchState)
    if state is not None:
        progress = BatchProgress.of(state)
    counts, is_cancelled = progress.counts, error is not None and was_cancelled(error)
    stuck_status = BatchStatus.CANCELLED if is_cancelled else BatchStatus.STOPPED
    stuck_stop = StopReason.CANCELLED if is_cancelled else StopReason.DEFECT
    return Batch(
        id=execution.id,
        caller=owner,
        name=summary.name,
        tool=summary.tool,
        mode=summary.mode,
        actor=summary.actor,
        schedule_id=execution.typed_search_attributes.get(search_attributes.SCHEDULE),
        status=_status(execution, outcome, progress, summary.total) if error is None else stuck_status,
        status_message=error.message if error is not None else await _message(execution, progress, summary.total),
        stopped_by=progress.stop if error is None else stuck_stop,
        created_at=summary.created_at,
        finished_at=execution.close_time,
        total=summary.total,
        **counts.model_dump(),
        under_way=progress.under_way,
        waiting=max(0, summary.total - counts.ended - progress.under_way),
        cost_usd=float(progress.cost_usd),
        budget_usd=float(summary.options.budget_usd) if summary.options.budget_usd is not None else None,
        per_minute=state.per_minute if state else None,
        seconds_left=_seconds_left(execution, state, counts, summary.total),
        results=str(results_locator(owner, execution.id)),
        options=summary.options,  # pyright: ignore[reportArgumentType]  # see MadeOf
        workflow_url=workflow_url(ui_url, namespace, execution.id),
    )


def unreadable_batch(execution: WorkflowExecution, reason: str) -> Batch:
    """A batch whose record cannot be read: its status, its results, and the reason."""
    attributes = execution.typed_search_attributes
    running = execution.status in (WorkflowExecutionStatus.RUNNING, WorkflowExecutionStatus.CONTINUED_AS_NEW)
    return Batch(
        id=execution.id,
        caller=owner_of(execution),
        tool=attributes.get(search_attributes.TOOL) or "",
        mode="",
        actor=attributes.get(search_attributes.ACTOR),
        schedule_id=attributes.get(search_attributes.SCHEDULE),
        status=BatchStatus.WORKING if running else BatchStatus.STOPPED,
        status_message=f"The batch cannot be shown. {reason}",
        created_at=execution.start_time,
        finished_at=execution.close_time,
        total=0,
        waiting=0,
        results=str(results_locator(owner_of(execution) or "", execution.id)),
        options=BatchOptions(),  # pyright: ignore[reportArgumentType]  # see MadeOf
    )


async def outcome_of(client: Client, batch_id: str, run_id: str | None) -> BatchOutcome | None:
    """The outcome of an ended run of a batch's workflow; None if it did not end by itself. Raises `RPCError`."""
    handle = client.get_workflow_handle(batch_id, run_id=run_id, result_type=BatchOutcome)
    try:
        return await batch_outcome(handle, follow_runs=False)
    except WorkflowFailureError:
        return None


def _status(
    execution: WorkflowExecution, outcome: BatchOutcome | None, progress: BatchProgress, total: int
) -> BatchStatus:
    if outcome is not None:
        return outcome.status
    if execution.status in _ENDED_ABNORMALLY:
        return BatchStatus.STOPPED
    if execution.status is WorkflowExecutionStatus.CANCELED:
        return BatchStatus.CANCELLED
    if execution.status is not WorkflowExecutionStatus.COMPLETED:
        return BatchStatus.WORKING
    if progress.stop is StopReason.CANCELLED:
        return BatchStatus.CANCELLED
    return BatchStatus.COMPLETED if progress.counts.ended == total else BatchStatus.STOPPED


async def _message(execution: WorkflowExecution, progress: BatchProgress, total: int) -> str | None:
    if progress.stop_words is not None:
        left = total - progress.counts.ended
        further = f" {left} items have not run: resume the batch to run them." if left else ""
        return f"Stopped: {progress.stop_words}.{further if execution.close_time is not None else ''}"
    if execution.status in _ENDED_ABNORMALLY:
        return "Its workflow did not end by itself; running items may continue as tasks."
    if isinstance(execution, WorkflowExecutionDescription) and execution.close_time is None:
        return await _message_at_work(execution, progress)
    return None


async def _message_at_work(description: WorkflowExecutionDescription, progress: BatchProgress) -> str | None:
    raw = description.raw_description
    for activity in raw.pending_activities:
        if activity.HasField("last_failure") and activity.attempt > 1:
            failure = await readable(activity.last_failure, description.data_converter)
            return f"Attempt {activity.attempt} of a round, trying again: {failure.message}"
    failing = failing_step(description)
    if failing is not None:
        return failing
    if raw.workflow_extended_info.cancel_requested:
        return "Cancelling: waiting until the running items have ended."
    if progress.waits_because is not None:
        return f"Waiting until other runs have ended: {progress.waits_because}"
    return None


def _seconds_left(execution: WorkflowExecution, state: BatchState | None, counts: Counts, total: int) -> float | None:
    if execution.close_time is not None or state is None or not state.per_minute or state.stop is not None:
        return None
    left = state.plan_end - state.cursor + len(state.under_way) if state.plan is not None else total - counts.ended
    return round(60 * max(0, left) / state.per_minute, 1)
