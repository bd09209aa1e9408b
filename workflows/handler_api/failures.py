"""The `ErrorEnvelope` of a failed activity and of a tool's exception, and the error that handlers raise."""

import sysconfig
import traceback
from collections.abc import Callable
from typing import Final

from pydantic import ValidationError
from temporalio.exceptions import ActivityError, ApplicationError, RetryState, TimeoutType
from temporalio.exceptions import TimeoutError as ActivityTimeoutError

import outlast
from outlast.activities.contracts import LOCAL_CALLER_ID, ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import redact


class ToolError(Exception):
    """An expected failure in a handler. It ends the handler and becomes the call's answer."""

    def __init__(self, envelope: ErrorEnvelope) -> None:
        super().__init__(envelope.message)
        self.envelope = envelope


_TIMEOUTS: Final[dict[TimeoutType | None, tuple[str, str]]] = {
    TimeoutType.START_TO_CLOSE: (
        "did not end within the time limit of one attempt",
        "Call again when the platform responds.",
    ),
    TimeoutType.HEARTBEAT: (
        "was interrupted: its worker stopped or did not respond",
        "Call again. If it happens again, report it to the operators.",
    ),
    TimeoutType.SCHEDULE_TO_CLOSE: (
        "did not end before the deadline of the call",
        "Call again with a longer deadline, or when the platform responds.",
    ),
}
"""Reason of the timeout, and the hint."""


def envelope_of(error: ActivityError, *, tool: str) -> ErrorEnvelope:
    """Return the envelope of a failed activity: its own, or one made from a timeout."""
    cause = error.cause
    if isinstance(cause, ApplicationError):
        return envelope_of_failure(cause, tool=tool)
    if isinstance(cause, ActivityTimeoutError):
        last = cause.cause
        last_attempt = f" The last attempt: {last.message}" if isinstance(last, ApplicationError) else ""
        reason, hint = _TIMEOUTS.get(cause.type, _TIMEOUTS[TimeoutType.SCHEDULE_TO_CLOSE])
        return ErrorEnvelope.transient(ErrorCategory.TIMEOUT, tool, f"{tool} {reason}.{last_attempt}", hint=hint)
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


_INSTALLED: Final = (*outlast.__path__, *map(sysconfig.get_path, ("stdlib", "platstdlib", "purelib", "platlib")))
"""Folders of Outlast, Python and installed packages."""


def defect(
    error: BaseException, *, tool: str, task_id: str, caller_id: str, hide: Callable[[str], str] = str
) -> ErrorEnvelope:
    """Return the error for an exception in a tool's code, which is not retried.

    The caller without a credential on the operator's own machine reads the exception and its place, without
    credentials. Other callers read where the operators find it. `hide` removes further secrets from the message.
    """
    if caller_id == LOCAL_CALLER_ID:
        place = _place_of(error)
        message = f"The tool failed{f' in {place}' if place else ''}: {_text_of(error)}"
        hint = "Correct the tool's code. The worker's log has the traceback: logs/worker.log in the data directory."
    else:
        message = "The tool failed: its code raised an error."
        hint = f"Report it to the operators with the task's id, {task_id}: the worker's log has the cause."
    return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, tool, redact(hide(message)), hint=hint)


def _place_of(error: BaseException) -> str | None:
    """Return the innermost file and line outside of installed packages."""
    frames = ((frame.f_code.co_filename, line) for frame, line in traceback.walk_tb(error.__traceback__))
    own = [f"{file}:{line}" for file, line in frames if not file.startswith((*_INSTALLED, "<"))]
    return own[-1] if own else None


def _text_of(error: BaseException) -> str:
    """Return the type and the message of an exception in one line; of pydantic's, without the values."""
    kind = type(error).__name__
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        place = ".".join(str(part) for part in (error.title, *first["loc"]))
        more = f" (and {error.error_count() - 1} more)" if error.error_count() > 1 else ""
        return f"{kind}: {place}: {first['msg']}{more}"
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001 (the author's own `__str__`)
        text = ""
    return f"{kind}: {text}" if text else kind
