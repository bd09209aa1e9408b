"""The error of a task whose workflow returned no result: it was cancelled, terminated, or ended for being stuck."""

from temporalio.client import WorkflowFailureError
from temporalio.exceptions import CancelledError, TerminatedError

from outlast.activities.failures.classify import redact
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.stuck_tasks.contracts import error_of_end


def abnormal(task_id: str, error: WorkflowFailureError) -> ErrorEnvelope:
    """The error for a task whose workflow returned no result."""
    if isinstance(error.cause, CancelledError):
        return ErrorEnvelope.permanent(ErrorCategory.CANCELLED, "", f"Task {task_id} was cancelled.")
    if isinstance(error.cause, TerminatedError) and (envelope := error_of_end(error.cause.details)) is not None:
        return envelope
    message = redact(f"Task {task_id} did not end by itself: {error.cause}")
    return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, "", message)
