"""Converts Temporal's description of a workflow (memo, search attributes, activities) to a `Task`. Needs no worker.

`history_details` adds the details that only the history has.
"""

from datetime import UTC, datetime, timedelta
from typing import TypeVar

from pydantic import BaseModel
from temporalio.api.enums.v1 import PendingActivityState
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.api.workflowservice.v1 import DescribeWorkflowExecutionResponse
from temporalio.client import WorkflowExecution, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import TypedSearchAttributes
from temporalio.converter import DataConverter

from outlast.activities.mcp_servers.contracts import CallPhase
from outlast.activities.runs.contracts import RunState
from outlast.activities.stuck_tasks.histories import readable
from outlast.api.temporal import history_details
from outlast.contracts.tasks import Task
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.questions import InputRequest, InputRequests
from outlast.workflows.contracts.tool_calls import Progress, TaskCompleted, TaskStatus, TaskSummary, ToolResult
from outlast.workflows.tools.framework.changes import waiting_message
from outlast.workflows.tools.registry import change_of_tool

Model = TypeVar("Model", bound=BaseModel)

QUEUED_MESSAGE = "Queued: it starts when fewer of your other tasks are running."
"""Status message of a task beyond its caller's limit."""
RUN_STARTED_MESSAGE = "The run has started."
"""Status message of a task whose run has started, until the run has its own message."""
NO_SERVER_WORKER_MESSAGE = (
    "Waiting for a worker with a file of MCP servers: none is running, or all are busy. The operator can start one "
    "with OUTLAST_MCP_SERVERS_FILE (outlast up --mcp-servers FILE)."
)
RESURRECTING_MESSAGE = "The run was cut short; it is being resurrected."
_WORKER_PATIENCE = timedelta(seconds=3)
_SERVER_WORKER_PATIENCE = timedelta(seconds=12)
"""Longer than a call waits for the worker that has its session, after which another one gets it."""
_OF_RUNS = {
    history_details.START_RUN, history_details.WAIT_FOR_RUN, history_details.RESURRECT_RUN, history_details.ABORT_RUN,
}  # fmt: skip
"""Activities of calls that have a run."""
_HARMLESS_ATTEMPTS = 2
"""A step that a dying worker had begun is also repeated."""

_CLOSED = {
    WorkflowExecutionStatus.CANCELED: TaskStatus.CANCELLED,
    WorkflowExecutionStatus.FAILED: TaskStatus.FAILED,
    WorkflowExecutionStatus.TERMINATED: TaskStatus.FAILED,
    WorkflowExecutionStatus.TIMED_OUT: TaskStatus.FAILED,
}
_ENDED_ABNORMALLY = {
    WorkflowExecutionStatus.FAILED: "The workflow failed; its run may still be running and costing money.",
    WorkflowExecutionStatus.TERMINATED: "It was terminated; its result says why. Check that its run has ended.",
    WorkflowExecutionStatus.TIMED_OUT: "The workflow timed out; its run may still be running and costing money.",
    None: None,
}


class LiveProgress(Progress):
    """Progress that comes from a heartbeat, and is in no event of the history."""


async def task_from(execution: WorkflowExecution, *, ui_url: str | None, namespace: str) -> Task | None:
    """Describe the task behind `execution`; None for a workflow of another kind."""
    summary = await memo_model(execution, memo.SUMMARY, TaskSummary)
    if summary is None:
        return None
    completed = await memo_model(execution, memo.TASK_COMPLETED, TaskCompleted)
    run = await memo_model(execution, memo.RUN_FINISHED, RunState)
    status = _status(execution, completed)
    is_cancelling = _is_being_cancelled(execution) and not status.is_final
    started = task_of(
        execution.id,
        summary,
        status,
        caller_id=owner_of(execution),
        batch_id=execution.typed_search_attributes.get(search_attributes.BATCH),
        schedule_id=execution.typed_search_attributes.get(search_attributes.SCHEDULE),
        workflow_url=workflow_url(ui_url, namespace, execution.id),
    )
    ended_message = completed.message if completed else _message_of_end(execution)
    is_queued = status is TaskStatus.QUEUED and not is_cancelling
    costs = (completed.cost_usd if completed else None, run.usage_total_usd if run else None)
    task = started.model_copy(
        update={
            "status_message": started.status_message if is_queued else ended_message,
            "finished_at": execution.close_time,
            "answered": _is_answered(execution, completed),
            "input_requests": await _open_questions(execution),
            "run": run,
            "cost_usd": next((cost for cost in costs if cost is not None), None),
            "progress": await memo_model(execution, memo.PROGRESS, Progress),
            "is_cancelling": is_cancelling,
        }
    )
    if is_queued:
        return task
    if isinstance(execution, WorkflowExecutionDescription) and execution.close_time is None:
        task = await _with_progress(task, execution)
    if task.is_final or is_cancelling:
        return task
    change = change_of_tool(summary.mode, summary.tool, summary.admitted_tool)
    return task if change is None else task.model_copy(update={"status_message": waiting_message(change)})


def task_of(
    task_id: str,
    summary: TaskSummary,
    status: TaskStatus,
    *,
    caller_id: str | None,
    batch_id: str | None,
    schedule_id: str | None,
    workflow_url: str | None,
) -> Task:
    """Build a task from the summary in its memo: all that is known at its start."""
    return Task(
        id=task_id,
        tool=summary.tool,
        caller=caller_id,
        status=status,
        status_message=QUEUED_MESSAGE if status is TaskStatus.QUEUED else None,
        mode=summary.mode,
        executor=summary.executor,
        actor=summary.actor,
        session_id=summary.session_id,
        batch_id=batch_id,
        schedule_id=schedule_id,
        created_at=summary.created_at,
        resurrects=summary.resurrects,
        again_of=summary.again_of,
        called_by=summary.called_by,
        workflow_url=workflow_url,
    )


def workflow_url(ui_url: str | None, namespace: str, workflow_id: str) -> str | None:
    """The address of a workflow in the Temporal UI whose root is `ui_url`; None without a UI."""
    return f"{ui_url.rstrip('/')}/namespaces/{namespace}/workflows/{workflow_id}" if ui_url else None


def unreadable_task(execution: WorkflowExecution, reason: str) -> Task:
    """A task whose record cannot be read: the data in its search attributes, and the reason."""
    attributes = execution.typed_search_attributes
    return Task(
        id=execution.id,
        tool=attributes.get(search_attributes.TOOL) or "",
        caller=owner_of(execution),
        status=_status(execution, None),
        status_message=f"The task cannot be shown. {reason}",
        mode="",
        executor="none",
        actor=attributes.get(search_attributes.ACTOR),
        session_id=attributes.get(search_attributes.SESSION),
        batch_id=attributes.get(search_attributes.BATCH),
        schedule_id=attributes.get(search_attributes.SCHEDULE),
        created_at=execution.start_time,
        finished_at=execution.close_time,
    )


async def is_cancellable(execution: WorkflowExecution) -> bool:
    """Return True for a task without an answer, or whose run still runs.

    Other workflows may also be open for a moment, while they send their answer to their session and webhooks.
    """
    if execution.status is not WorkflowExecutionStatus.RUNNING:
        return False
    if await memo_model(execution, memo.RESULT, ToolResult) is not None:
        return True  # the handler returned before its run had ended
    return not _status(execution, await memo_model(execution, memo.TASK_COMPLETED, TaskCompleted)).is_final


def owner_of(execution: WorkflowExecution) -> str | None:
    """The id of the caller whose task this is."""
    attributes: TypedSearchAttributes = execution.typed_search_attributes
    return attributes.get(search_attributes.CALLER)


async def memo_model(execution: WorkflowExecution, key: str, model: type[Model]) -> Model | None:
    """One entry of the memo, or None when it is not set."""
    return await execution.memo_value(key, None, type_hint=model)


def _is_answered(execution: WorkflowExecution, completed: TaskCompleted | None) -> bool:
    if completed is not None:
        return completed.status is not TaskStatus.CANCELLED
    return execution.status is WorkflowExecutionStatus.COMPLETED or _has_failed_by_itself(execution)


def _message_of_end(execution: WorkflowExecution) -> str | None:
    return None if _has_failed_by_itself(execution) else _ENDED_ABNORMALLY.get(execution.status)


def _has_failed_by_itself(execution: WorkflowExecution) -> bool:
    """Return whether the workflow failed with an outcome: it had recorded its status."""
    recorded = execution.typed_search_attributes.get(search_attributes.TASK_STATUS)
    return execution.status is WorkflowExecutionStatus.FAILED and recorded == TaskStatus.FAILED


def _status(execution: WorkflowExecution, completed: TaskCompleted | None) -> TaskStatus:
    if completed is not None:
        return completed.status
    if execution.status is not None and execution.status in _CLOSED:
        return _CLOSED[execution.status]
    recorded = TaskStatus(execution.typed_search_attributes.get(search_attributes.TASK_STATUS) or TaskStatus.WORKING)
    if execution.status is WorkflowExecutionStatus.COMPLETED and not recorded.is_final:
        return TaskStatus.COMPLETED
    return recorded


async def _open_questions(execution: WorkflowExecution) -> dict[str, InputRequest] | None:
    if execution.close_time is not None:
        return None
    asked = await memo_model(execution, memo.INPUT_REQUESTS, InputRequests)
    return asked.requests if asked and asked.requests else None


async def _with_progress(task: Task, description: WorkflowExecutionDescription) -> Task:
    """Add the state of pending activities: the run's status message, or what the task waits for."""
    run, message, live = task.run, None, None
    converter = description.data_converter
    for activity in description.raw_description.pending_activities:
        latest = await heartbeat(activity, converter, history_details.WAIT_FOR_RUN, RunState)
        live = await _heartbeat_progress(activity, converter) or live
        if latest is not None:
            run, message = latest, latest.status_message
            # The cost only grows, and the memo may have a later one.
            costs = [cost for cost in (task.cost_usd, latest.usage_total_usd) if cost is not None]
            task = task.model_copy(update={"cost_usd": max(costs, default=None)})
        # A heartbeat after the failure shows that a further attempt works.
        fails = activity.last_heartbeat_time.ToNanoseconds() < activity.last_attempt_complete_time.ToNanoseconds()
        if activity.HasField("last_failure") and (latest is None or fails):
            failure = await readable(activity.last_failure, description.data_converter)
            message = f"Attempt {activity.attempt}, trying again: {failure.message}"
    if task.is_final:
        return task.model_copy(update={"run": run})
    progress = live or task.progress
    shown = message or (progress.message if progress else None) or _waiting(description, run)
    return task.model_copy(update={"run": run, "progress": progress, "status_message": shown})


def _is_being_cancelled(execution: WorkflowExecution) -> bool:
    if not isinstance(execution, WorkflowExecutionDescription):
        return False
    return execution.raw_description.workflow_extended_info.cancel_requested


def _waiting(description: WorkflowExecutionDescription, run: RunState | None) -> str | None:
    raw = description.raw_description
    failing = failing_step(description)
    # Until the first heartbeat, only the history has the run, see `history_details`.
    pending = {activity.activity_type.name for activity in raw.pending_activities}
    if raw.workflow_extended_info.cancel_requested:
        return failing or _cancelling(run, pending)
    if failing is not None:
        return failing
    if history_details.WAIT_FOR_RUN in pending:
        return (run.status_message if run else None) or RUN_STARTED_MESSAGE
    if history_details.RESURRECT_RUN in pending:
        return RESURRECTING_MESSAGE
    if any(_is_without_server_worker(activity) for activity in raw.pending_activities):
        return NO_SERVER_WORKER_MESSAGE
    return "Waiting for a worker." if _is_left_lying(raw) else None


def _cancelling(run: RunState | None, pending: set[str]) -> str:
    if run is not None or pending & _OF_RUNS:
        return "Cancelling: waiting until the platform reports that the run has ended."
    if history_details.PLAIN_FUNCTION in pending:
        return "Cancelling: waiting until the tool's function has ended."
    return "Cancelling: waiting until the worker has ended the call."


def failing_step(description: WorkflowExecutionDescription) -> str | None:
    """A sentence about a step of the workflow that fails repeatedly; None if there is none."""
    attempt = description.raw_description.pending_workflow_task.attempt
    if attempt <= _HARMLESS_ATTEMPTS:
        return None
    if description.raw_description.workflow_extended_info.cancel_requested:
        return f"Cancelling: a step of the workflow fails (attempt {attempt}). It is ended if that continues."
    return f"Attempt {attempt} of a step of the workflow, trying again; see its history and the worker's log."


def _is_left_lying(raw: DescribeWorkflowExecutionResponse) -> bool:
    """Return whether the next step has waited so long that no worker seems to be running."""
    if raw.pending_activities or not raw.HasField("pending_workflow_task"):
        return False
    pending = raw.pending_workflow_task
    waited = datetime.now(UTC) - pending.scheduled_time.ToDatetime(tzinfo=UTC)
    return not pending.HasField("started_time") and waited > _WORKER_PATIENCE


def _is_without_server_worker(activity: PendingActivityInfo) -> bool:
    """Return whether a call of an MCP server has waited so long that no worker seems to have a file of servers."""
    waited = datetime.now(UTC) - activity.scheduled_time.ToDatetime(tzinfo=UTC)
    return (
        activity.activity_type.name == history_details.CALL_SERVER_TOOL
        and activity.state == PendingActivityState.PENDING_ACTIVITY_STATE_SCHEDULED
        and waited > _SERVER_WORKER_PATIENCE
    )


async def heartbeat(
    activity: PendingActivityInfo, converter: DataConverter, name: str, model: type[Model]
) -> Model | None:
    """The latest heartbeat of a pending activity; None without one, or for an activity with another name."""
    payloads = activity.heartbeat_details.payloads
    if activity.activity_type.name != name or not payloads:
        return None
    return (await converter.decode(payloads, [model]))[0]


async def latest_heartbeat(description: WorkflowExecutionDescription, name: str, model: type[Model]) -> Model | None:
    """The latest heartbeat of the workflow's pending activity with this name."""
    for activity in description.raw_description.pending_activities:
        if (found := await heartbeat(activity, description.data_converter, name, model)) is not None:
            return found
    return None


async def _heartbeat_progress(activity: PendingActivityInfo, converter: DataConverter) -> LiveProgress | None:
    """The progress that a proxied tool or a plain function reports."""
    for name in (history_details.CALL_MCP_TOOL, history_details.CALL_SERVER_TOOL):
        phase = await heartbeat(activity, converter, name, CallPhase)
        if phase is not None:
            return LiveProgress.model_validate(phase.progress.model_dump()) if phase.progress else None
    return await heartbeat(activity, converter, history_details.PLAIN_FUNCTION, LiveProgress)
