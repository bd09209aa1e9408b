"""Runs of ended tasks that another task takes over, and errors of tasks that ended without a result."""

from dataclasses import dataclass
from typing import Any

from temporalio.client import Client, WorkflowExecutionDescription, WorkflowFailureError, WorkflowHandle
from temporalio.exceptions import CancelledError, TerminatedError

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import redact
from outlast.activities.runs.contracts import Production, ResurrectResult, RunState, operation_id
from outlast.activities.runs.resurrection import RunResurrections
from outlast.activities.stuck_tasks.contracts import error_of_end
from outlast.activities.stuck_tasks.histories import ActivityResults
from outlast.workflows.batches.contracts import BATCH_STOPPED, BatchOutcome
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.failed_tasks import outcome_in, outcome_of
from outlast.workflows.contracts.tool_calls import ResurrectedTask, ToolCall, ToolOutcome

_RESURRECT_RUN = RunResurrections.resurrect_run.__name__


@dataclass(frozen=True)
class EndedCall:
    """The call, and the output of its run at the latest resurrection."""

    call: ToolCall
    """Its secrets are sealed."""
    produced: Production


async def ended_call(client: Client, description: WorkflowExecutionDescription) -> EndedCall:
    """The call behind the workflow of an ended task. Raises `RPCError`."""
    handle = client.get_workflow_handle(description.id, run_id=description.run_id)
    results, call, produced = ActivityResults(), None, Production()
    async for event in handle.fetch_history_events():
        if call is None:
            payloads = event.workflow_execution_started_event_attributes.input.payloads
            [call] = await client.data_converter.decode(payloads, [ToolCall])
            produced = call.resurrects.produced if call.resurrects is not None else produced
        name, result = results.read(event)
        if name == _RESURRECT_RUN:
            [decided] = await client.data_converter.decode(result, [ResurrectResult])
            produced = decided.produced if decided.is_resurrected else produced
    assert call is not None
    return EndedCall(call, produced)


def taken_up(description: WorkflowExecutionDescription, ended: EndedCall, run: RunState) -> ResurrectedTask:
    """The ended task, as a call refers to it that goes on with its run: the first and only one that it had started."""
    return ResurrectedTask(
        task_id=description.id,
        run=run,
        entry_id=operation_id(
            namespace=description.namespace,
            workflow_id=description.id,
            first_run_id=description.run_id or "",
            number=1,
        ),
        produced=ended.produced,
    )


async def task_outcome(handle: WorkflowHandle[Any, ToolOutcome]) -> ToolOutcome:
    """Wait for the end of a task. Raises `WorkflowFailureError` if its workflow did not end by itself."""
    try:
        return await handle.result()
    except WorkflowFailureError as error:
        outcome = outcome_of(error.cause)
        if outcome is None:
            raise
        return outcome


async def batch_outcome(handle: WorkflowHandle[Any, BatchOutcome], *, follow_runs: bool = True) -> BatchOutcome:
    """Wait for the end of a batch. Raises `WorkflowFailureError` if its workflow did not end by itself."""
    try:
        return await handle.result(follow_runs=follow_runs)
    except WorkflowFailureError as error:
        outcome = outcome_in(error.cause, BATCH_STOPPED, BatchOutcome)
        if outcome is None and isinstance(error.cause, CancelledError):
            outcome = await (await handle.describe()).memo_value(memo.BATCH_OUTCOME, None, type_hint=BatchOutcome)
        if outcome is None:
            raise
        return outcome


def abnormal(task_id: str, error: WorkflowFailureError) -> ErrorEnvelope:
    """The error for a task whose workflow returned no result."""
    if isinstance(error.cause, CancelledError):
        return ErrorEnvelope.permanent(ErrorCategory.CANCELLED, "", f"Task {task_id} was cancelled.")
    if isinstance(error.cause, TerminatedError) and (envelope := error_of_end(error.cause.details)) is not None:
        return envelope
    message = redact(f"Task {task_id} did not end by itself: {error.cause}")
    return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, "", message)
