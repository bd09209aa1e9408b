"""The `ErrorEnvelope` of a failed activity, and the error that handlers raise."""

from temporalio.exceptions import ActivityError, ApplicationError, RetryState, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

from outlast.activities.failures.classify import redact
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope


class ToolError(Exception):
    """An expected failure in a handler. It ends the handler and becomes the call's answer."""

    def __init__(self, envelope: ErrorEnvelope) -> None:
        super().__init__(envelope.message)
        self.envelope = envelope


def envelope_of(error: ActivityError, *, tool: str) -> ErrorEnvelope:
    """Return the envelope of a failed activity: its own, or one made from a timeout."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return envelope_of_failure(cause, tool=tool)
    if isinstance(cause, ActivityTimeoutError):
        last = cause.cause
        last_attempt = f" The last attempt: {last.message}" if isinstance(last, ApplicationError) else ""
        return ErrorEnvelope.transient(
            ErrorCategory.TIMEOUT,
            tool,
            f"{error.activity_type} did not end within its time.{last_attempt}",
            hint="Call again with a longer deadline, or when the platform answers again.",
        )
    return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, tool, redact(str(cause or error)))


def envelope_of_failure(cause: ApplicationError, *, tool: str) -> ErrorEnvelope:
    """Return the envelope that an activity failed with."""
    if cause.details:
        return ErrorEnvelope.model_validate(cause.details[0]).model_copy(update={"tool": tool})
    return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, tool, redact(cause.message))


def is_deadline(error: ActivityError) -> bool:
    """Return whether the activity ended at the task's deadline: now, or before the next attempt could begin."""
    timed_out = isinstance(error.cause, ActivityTimeoutError) and error.cause.type == TimeoutType.SCHEDULE_TO_CLOSE
    return timed_out or error.retry_state is RetryState.TIMEOUT


def is_definite_refusal(error: ActivityError, *, searched: bool = False) -> bool:
    """Return whether the platform itself refused a start, so that nothing can have been started.

    A lack of capacity is always refused by the start itself, after a search that found no run. Any other refusal is
    certain only in the first attempt: later attempts, and a first one that `searched`, search for a run first, and that
    search may have failed.
    """
    cause = error.cause
    if not isinstance(cause, ApplicationError):
        return False
    if cause.type == ErrorCategory.CAPACITY:
        return True
    envelope = envelope_of_failure(cause, tool="")
    is_first = envelope.attempt == 1 and not searched
    return cause.non_retryable and is_first and envelope.category is not ErrorCategory.UNKNOWN
