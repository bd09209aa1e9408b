"""From a failed activity back to the `ErrorEnvelope` that it raised."""

from temporalio.exceptions import ActivityError, ApplicationError, RetryState, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

from outlast.activities.failures.classify import redact
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope


class ToolError(Exception):
    """An expected failure in a handler. It ends the handler and becomes the call's answer."""

    def __init__(self, envelope: ErrorEnvelope) -> None:
        """Carry `envelope`."""
        super().__init__(envelope.message)
        self.envelope = envelope


def envelope_of(error: ActivityError, *, tool: str) -> ErrorEnvelope:
    """The envelope of a failed activity: its own, or one made from a time-out."""
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
    message = redact(str(cause or error))
    return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, tool, message)


def envelope_of_failure(cause: ApplicationError, *, tool: str) -> ErrorEnvelope:
    """The envelope that an activity failed with."""
    if cause.details:
        return ErrorEnvelope.model_validate(cause.details[0]).model_copy(update={"tool": tool})
    return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, tool, redact(cause.message))


def is_deadline(error: ActivityError) -> bool:
    """Whether the activity ended because the task's time was over: now, or before the next attempt could begin."""
    timed_out = isinstance(error.cause, ActivityTimeoutError) and error.cause.type == TimeoutType.SCHEDULE_TO_CLOSE
    return timed_out or error.retry_state is RetryState.TIMEOUT


def is_definite_refusal(error: ActivityError, *, searched: bool = False) -> bool:
    """Whether the platform itself refused a start, so that nothing can have been started.

    A lack of capacity is always refused by the start itself, after a search that found no run. Any other refusal is
    certain only in the first attempt: later attempts search for a run first, and the search may have failed. So may
    that of a first attempt that `searched`.
    """
    cause = error.cause
    if not isinstance(cause, ApplicationError):
        return False
    if cause.type == ErrorCategory.CAPACITY:
        return True
    envelope = envelope_of_failure(cause, tool="")
    return (
        cause.non_retryable
        and envelope.attempt == 1
        and not searched
        and envelope.category is not ErrorCategory.UNKNOWN
    )
