"""From a failed activity back to the `ErrorEnvelope` that it raised."""

import hashlib

from temporalio.exceptions import ActivityError, ApplicationError, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

from activities.models import ErrorCategory, ErrorEnvelope


class ToolError(Exception):
    """An expected failure inside a handler: ends it, and becomes the call's answer."""

    def __init__(self, envelope: ErrorEnvelope) -> None:
        """Carry `envelope`."""
        super().__init__(envelope.message)
        self.envelope = envelope


def envelope_of(error: ActivityError, *, tool: str) -> ErrorEnvelope:
    """Describe why an activity failed."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return _carried(cause, tool=tool)
    if isinstance(cause, ActivityTimeoutError):
        last = cause.cause
        waited_for = f" The last attempt: {last.message}" if isinstance(last, ApplicationError) else ""
        return ErrorEnvelope(
            tool=tool,
            message=f"{error.activity_type} did not end within its time.{waited_for}",
            category=ErrorCategory.TIMEOUT,
            retryable=True,
            hint="Call again with a longer deadline, or when the platform answers again.",
        )
    return ErrorEnvelope(tool=tool, message=str(cause or error), category=ErrorCategory.UNKNOWN, retryable=False)


def is_deadline(error: ActivityError) -> bool:
    """Whether the activity ended because the task's time was over."""
    return isinstance(error.cause, ActivityTimeoutError) and error.cause.type == TimeoutType.SCHEDULE_TO_CLOSE


def is_definite_refusal(error: ActivityError) -> bool:
    """Whether the platform itself refused, so that nothing can have been started."""
    return isinstance(error.cause, ApplicationError) and error.cause.non_retryable


def signature(envelope: ErrorEnvelope) -> str:
    """A short digest that is the same for the same failure of the same tool."""
    text = f"{envelope.tool}\n{envelope.category}\n{envelope.message}"
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _carried(cause: ApplicationError, *, tool: str) -> ErrorEnvelope:
    if cause.details:
        return ErrorEnvelope.model_validate(cause.details[0]).model_copy(update={"tool": tool})
    return ErrorEnvelope(tool=tool, message=cause.message, category=ErrorCategory.UNKNOWN, retryable=False)
