"""How a call has begun or ended, where Temporal's description of its workflow is not asked."""

from outlast.activities.failures.contracts import ErrorCategory
from outlast.contracts.tasks import Task
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
