"""Exceptions that the classifier handles: of model providers, of encrypted values, and of stored outputs.

Errors of stored outputs have the same texts in REST, MCP and the CLI.
"""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Literal

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope

MAX_RETRY_AFTER = timedelta(minutes=5)
"""Longer waits are cut to this: the provider is then called again and may ask for another wait."""

CONNECTION = "connection"
TIMEOUT = "timeout"
NOT_CONFIGURED = "not_configured"
UNKNOWN_PROVIDER = "unknown_provider"
TOO_LONG = "too_long"
"""The conversation is longer than the model's window, as Outlast counts it."""
REFUSED_HERE = "refused_here"
"""Outlast refused the call before it was sent: the provider or the model lacks a control."""


class SealError(ValueError):
    """An encrypted value cannot be opened, or a key ring cannot be read. The message contains no key and no secret."""


class ProviderError(Exception):
    """A provider rejected a call, failed, or could not be reached. `kinds` are the provider's own codes for the
    failure, the most specific first (`insufficient_quota`, `overloaded_error`), or one of this module's constants.
    """

    def __init__(
        self,
        provider_id: str,
        message: str,
        *,
        kinds: tuple[str, ...] = (),
        status: int | None = None,
        retry_after: timedelta | None = None,
    ) -> None:
        """`retry_after` is the pause that the provider asks for before the next call."""
        super().__init__(message)
        self.provider_id = provider_id
        self.message = message
        self.kinds = kinds
        self.status = status
        self.retry_after = retry_after


def retry_after_of(seconds_or_date: str | None, milliseconds: str | None, now: datetime) -> timedelta | None:
    """The pause that the headers `Retry-After` (RFC 9110) and `retry-after-ms` ask for, at most `MAX_RETRY_AFTER`."""
    delay = _delay(milliseconds, timedelta(milliseconds=1)) or _delay(seconds_or_date, timedelta(seconds=1))
    if delay is None and seconds_or_date:
        delay = _until(seconds_or_date, now)
    if delay is None or delay <= timedelta(0):
        return None
    return min(delay, MAX_RETRY_AFTER)


def _delay(text: str | None, unit: timedelta) -> timedelta | None:
    try:
        return float(text) * unit if text else None
    except (ValueError, OverflowError):
        return None


def _until(text: str, now: datetime) -> timedelta | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)) - now


OutputErrorReason = Literal["malformed", "foreign", "unknown", "expired", "deleted", "damaged", "bad_selection"]

_CATEGORIES: dict[OutputErrorReason, ErrorCategory] = {
    "malformed": ErrorCategory.VALIDATION,
    "foreign": ErrorCategory.PERMISSION,
    "unknown": ErrorCategory.NOT_FOUND,
    "expired": ErrorCategory.NOT_FOUND,
    "deleted": ErrorCategory.NOT_FOUND,
    "damaged": ErrorCategory.FILESYSTEM,
    "bad_selection": ErrorCategory.VALIDATION,
}
_HINTS: dict[OutputErrorReason, str] = {
    "malformed": "Copy the locator exactly as it was given; it begins with `out_`.",
    "foreign": "Use the token of the caller whose call produced it, or call the tool again yourself.",
    "unknown": "Check that the locator comes from this server; call the tool again for a new output.",
    "expired": "Call the tool again for a new output; request a longer time to live if you need it longer.",
    "deleted": "Call the tool again for a new output.",
    "damaged": "Call the tool again for a new output, and report it to the operators: stored objects were changed.",
    "bad_selection": "Change the selection and try again.",
}


class OutputError(Exception):
    """A stored output cannot be read. The message gives the reason, `hint` a remedy."""

    def __init__(self, reason: OutputErrorReason, message: str, hint: str | None = None) -> None:
        """`hint` replaces the usual hint of `reason`."""
        super().__init__(message)
        self.reason: OutputErrorReason = reason
        self.message = message
        self.hint = hint or _HINTS[reason]

    def envelope(self, tool: str = "") -> ErrorEnvelope:
        """Return the error as a tool error, which is not retried."""
        return ErrorEnvelope.permanent(_CATEGORIES[self.reason], tool, self.message, hint=self.hint)


class OutputDamaged(OutputError):
    """The stored bytes are not the bytes that were written: truncated, changed, or not an output at all."""

    def __init__(self, problem: str) -> None:
        super().__init__("damaged", f"This output is damaged: {problem}")
        self.problem = problem


class StoreUnavailable(ConnectionError):
    """The object store did not respond, or failed in a way that a retry may solve."""


class ObjectUnavailable(StoreUnavailable):
    """This object cannot be read, and others can. The message is a sentence about the reason."""


class StoredKeyMissing(ObjectUnavailable):
    """The object was encrypted under a key that is not in the ring. It can be read when the key is back."""
