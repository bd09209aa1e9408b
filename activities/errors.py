"""One classifier for every failure: exception in, `ErrorEnvelope` out.

It also decides what Temporal retries: an activity raises `failure(...)`, whose type is the category and whose
`non_retryable` flag is the envelope's.
"""

import json
import re
from datetime import timedelta

import httpx
import impit
from apify_client.errors import ApifyApiError, InvalidResponseBodyError
from pydantic import ValidationError
from temporalio.exceptions import ApplicationError

from activities.models import ErrorCategory, ErrorEnvelope, Violation
from activities.secrets import SealError

MAX_MESSAGE_CHARS = 2_000
CAPACITY_RETRY_DELAY = timedelta(seconds=10)
"""How long to wait before asking again for memory or a run slot, as long as apify-client's `wait_for_resources`."""

RETRYABLE = frozenset(
    {
        ErrorCategory.NETWORK,
        ErrorCategory.TIMEOUT,
        ErrorCategory.RATE_LIMIT,
        ErrorCategory.CAPACITY,
        ErrorCategory.PLATFORM,
    }
)

_CAPACITY_TYPES = frozenset({"actor-memory-limit-exceeded", "concurrent-runs-limit-exceeded", "too-many-running-runs"})
"""Refusals that pass as other runs finish (reference: Apify API errors; apify-client `wait_for_resources`)."""

_BY_STATUS = {
    400: ErrorCategory.VALIDATION,
    401: ErrorCategory.AUTHENTICATION,
    402: ErrorCategory.PAYMENT,
    403: ErrorCategory.PERMISSION,
    404: ErrorCategory.NOT_FOUND,
    408: ErrorCategory.TIMEOUT,
    409: ErrorCategory.CONFLICT,
    413: ErrorCategory.VALIDATION,
    429: ErrorCategory.RATE_LIMIT,
}

_BY_TYPE: tuple[tuple[type[BaseException], ErrorCategory], ...] = (
    (impit.TimeoutException, ErrorCategory.TIMEOUT),
    (httpx.TimeoutException, ErrorCategory.TIMEOUT),
    (TimeoutError, ErrorCategory.TIMEOUT),
    (impit.HTTPError, ErrorCategory.NETWORK),
    (httpx.HTTPError, ErrorCategory.NETWORK),
    (ConnectionError, ErrorCategory.NETWORK),
    # The connection broke in the middle of a body, or a proxy answered in the platform's place.
    (InvalidResponseBodyError, ErrorCategory.NETWORK),
    (json.JSONDecodeError, ErrorCategory.NETWORK),
    (ValidationError, ErrorCategory.PLATFORM),
    (SealError, ErrorCategory.AUTHENTICATION),
    (PermissionError, ErrorCategory.PERMISSION),
    (OSError, ErrorCategory.FILESYSTEM),
)

_HINTS = {
    ErrorCategory.AUTHENTICATION: "Check the Apify token: it is missing, wrong or revoked.",
    ErrorCategory.PAYMENT: "Check the account's limits and balance, or raise the budget of the call.",
    ErrorCategory.PERMISSION: "This account may not do that; ask its owner or choose another Actor.",
    ErrorCategory.NOT_FOUND: "Check the name or id; it may have been deleted or belong to another account.",
    ErrorCategory.CAPACITY: "The account's memory or run limit is reached; the call goes on when runs finish.",
    ErrorCategory.RATE_LIMIT: "Too many requests; it is tried again more slowly.",
}

_SECRET_PATTERNS = (
    re.compile(r"apify_(?:api|proxy)_[\w-]{8,}"),
    re.compile(r"(?i)\b(?:bearer|basic)\s+[^\s\"'&,;]{6,}"),
    re.compile(
        r"(?i)\b(?:token|api[_-]?key|password|secret|authorization)[\"']?\s*[=:]\s*(?!\[redacted\])[\"']?[^\s\"'&,;]{6,}"
    ),
    re.compile(r"(?<=://)[^/@\s:]+:[^/@\s]+(?=@)"),
)


class ToolFailure(Exception):
    """An expected failure raised inside an activity with its envelope ready; becomes an `ApplicationError`."""

    def __init__(self, envelope: ErrorEnvelope) -> None:
        """Carry `envelope`."""
        super().__init__(envelope.message)
        self.envelope = envelope


def without_credentials(text: str) -> str:
    """`text` without anything that looks like a credential."""
    for pattern in _SECRET_PATTERNS:
        text = pattern.sub("[redacted]", text)
    return text


def redact(text: str) -> str:
    """`text` without anything that looks like a credential, at most `MAX_MESSAGE_CHARS` long."""
    text = without_credentials(text)
    return text if len(text) <= MAX_MESSAGE_CHARS else text[: MAX_MESSAGE_CHARS - 1] + "…"


def classify(error: BaseException, *, tool: str = "", attempt: int = 1) -> ErrorEnvelope:
    """Describe `error` as an envelope. Pure: no I/O, no clock."""
    if isinstance(error, ToolFailure):
        return error.envelope.model_copy(update={"tool": tool or error.envelope.tool, "attempt": attempt})
    category = _category(error)
    return ErrorEnvelope(
        tool=tool,
        message=redact(_message(error)),
        category=category,
        retryable=category in RETRYABLE,
        attempt=attempt,
        hint=_HINTS.get(category),
        violations=_violations(error, category),
    )


def failure(envelope: ErrorEnvelope, *, retry_delay: timedelta | None = None) -> ApplicationError:
    """The `ApplicationError` that carries `envelope` through Temporal; its flag decides whether it is retried."""
    if retry_delay is None and envelope.category is ErrorCategory.CAPACITY:
        retry_delay = CAPACITY_RETRY_DELAY
    return ApplicationError(
        envelope.message,
        envelope,
        type=envelope.category.value,
        non_retryable=not envelope.retryable,
        next_retry_delay=retry_delay,
    )


def category_of_status(status: int) -> ErrorCategory:
    """What kind of failure an HTTP status is."""
    return _BY_STATUS.get(status, ErrorCategory.PLATFORM if status >= 500 else ErrorCategory.UNKNOWN)


def _category(error: BaseException) -> ErrorCategory:
    if isinstance(error, ApifyApiError):
        if error.type in _CAPACITY_TYPES:
            return ErrorCategory.CAPACITY
        return category_of_status(error.status_code)
    return next((category for kind, category in _BY_TYPE if isinstance(error, kind)), ErrorCategory.UNKNOWN)


def _message(error: BaseException) -> str:
    if isinstance(error, ApifyApiError):
        label = f" ({error.type})" if error.type else ""
        return f"The platform answered {error.status_code}{label}: {error.message}"
    if isinstance(error, ValidationError):
        return f"The platform's answer does not fit its documented shape ({error.error_count()} differences)."
    text = str(error).strip()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _violations(error: BaseException, category: ErrorCategory) -> tuple[Violation, ...] | None:
    if category is ErrorCategory.VALIDATION and isinstance(error, ApifyApiError) and error.message:
        return (Violation(path="/input", message=redact(error.message)),)
    return None
