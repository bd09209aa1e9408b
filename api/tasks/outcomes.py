"""How a call has begun or ended, where Temporal's description of its workflow is not asked."""

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError, TerminatedError

from outlast.activities.failures.classify import redact
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.stuck_tasks.contracts import error_of_end
from outlast.api.contracts.tasks import Task
from outlast.workflows.contracts.tool_calls import TaskStatus, TaskSummary, ToolResult


def just_started(task_id: str, summary: TaskSummary, status: TaskStatus, workflow_url: str | None) -> Task:
    """The task that has just been started, or queued."""
    return Task(
        id=task_id,
        tool=summary.tool,
        status=status,
        mode=summary.mode,
        executor=summary.executor,
        actor=summary.actor,
        session_id=summary.session_id,
        created_at=summary.created_at,
        workflow_url=workflow_url,
    )


def status_of(result: ToolResult) -> TaskStatus:
    """The status of a task that ended with `result`."""
    if result.error is not None and result.error.category is ErrorCategory.CANCELLED and not result.structured:
        return TaskStatus.CANCELLED
    return TaskStatus.FAILED if result.is_error else TaskStatus.COMPLETED


def abnormal(task_id: str, error: WorkflowFailureError) -> ErrorEnvelope:
    """The error for a task whose workflow returned no result."""
    if isinstance(error.cause, CancelledError):
        return ErrorEnvelope.permanent(ErrorCategory.CANCELLED, "", f"Task {task_id} was cancelled.")
    if isinstance(error.cause, TerminatedError) and (told := error_of_end(error.cause.details)) is not None:
        return told
    message = redact(f"Task {task_id} did not end by itself: {error.cause}")
    return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, "", message)
