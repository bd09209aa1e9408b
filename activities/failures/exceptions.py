"""Exceptions that the classifier handles: failures of model providers, and of encrypted values."""

from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

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
