"""One classifier for every failure: exception in, `ErrorEnvelope` out. It also decides what Temporal retries: an
activity raises `failure(...)`, whose type is the category and whose `non_retryable` flag is the envelope's.

Failures of activities: an exception leaves as an `ApplicationError` with an `ErrorEnvelope`. The classifier decides
what Temporal retries. A transient error such as an unreadable response is permanent after `ENOUGH` times in a row;
outages are retried without end. The workflow of the task is signalled in both cases.
"""

import asyncio
import json
import re
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Literal

import httpx
import impit
from cachetools import LRUCache
from pydantic import ValidationError
from temporalio import activity
from temporalio.exceptions import ApplicationError, TemporalError
from temporalio.exceptions import CancelledError as TemporalCancelled
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from outlast.activities import apify
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.activities.failures import exceptions
from outlast.activities.failures.exceptions import ProviderError, SealError
from outlast.activities.pacing import Line
from outlast.activities.unicode_text import valid_text

MAX_MESSAGE_CHARS = 2_000
CAPACITY_RETRY_DELAY = timedelta(seconds=10)
"""The pause before another request for memory or a run slot, as long as apify-client's `wait_for_resources`."""

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
    410: ErrorCategory.NOT_FOUND,
    412: ErrorCategory.CONFLICT,
    413: ErrorCategory.VALIDATION,
    414: ErrorCategory.VALIDATION,
    422: ErrorCategory.VALIDATION,
    425: ErrorCategory.RATE_LIMIT,
    429: ErrorCategory.RATE_LIMIT,
    431: ErrorCategory.VALIDATION,
    504: ErrorCategory.TIMEOUT,
}

_BY_PROVIDER_KIND = {
    exceptions.CONNECTION: ErrorCategory.NETWORK,
    exceptions.TIMEOUT: ErrorCategory.TIMEOUT,
    exceptions.NOT_CONFIGURED: ErrorCategory.AUTHENTICATION,
    exceptions.UNKNOWN_PROVIDER: ErrorCategory.VALIDATION,
    exceptions.REFUSED_HERE: ErrorCategory.VALIDATION,
    exceptions.TOO_LONG: ErrorCategory.VALIDATION,
    # OpenAI answers 429 both for too many requests and for an account without money.
    "insufficient_quota": ErrorCategory.PAYMENT,
    "billing_error": ErrorCategory.PAYMENT,
    "billing_hard_limit_reached": ErrorCategory.PAYMENT,
    "model_not_found": ErrorCategory.NOT_FOUND,
    "context_length_exceeded": ErrorCategory.VALIDATION,
    "invalid_prompt": ErrorCategory.VALIDATION,
    "rate_limit_exceeded": ErrorCategory.RATE_LIMIT,
    "server_error": ErrorCategory.PLATFORM,
    # Anthropic's types: an error in the middle of a stream has nothing else.
    "authentication_error": ErrorCategory.AUTHENTICATION,
    "permission_error": ErrorCategory.PERMISSION,
    "not_found_error": ErrorCategory.NOT_FOUND,
    "rate_limit_error": ErrorCategory.RATE_LIMIT,
    "timeout_error": ErrorCategory.TIMEOUT,
    "overloaded_error": ErrorCategory.PLATFORM,
    "api_error": ErrorCategory.PLATFORM,
    "request_too_large": ErrorCategory.VALIDATION,
}
"""Names of providers for failures that are more exact than the status (their API references, errors)."""

_BY_TYPE: tuple[tuple[type[BaseException], ErrorCategory], ...] = (
    (asyncio.CancelledError, ErrorCategory.CANCELLED),
    (TemporalCancelled, ErrorCategory.CANCELLED),
    # A request that cannot be sent as it is, however often.
    (impit.LocalProtocolError, ErrorCategory.UNKNOWN),
    (impit.UnsupportedProtocol, ErrorCategory.UNKNOWN),
    (httpx.LocalProtocolError, ErrorCategory.UNKNOWN),
    (httpx.UnsupportedProtocol, ErrorCategory.UNKNOWN),
    (impit.TimeoutException, ErrorCategory.TIMEOUT),
    (httpx.TimeoutException, ErrorCategory.TIMEOUT),
    (TimeoutError, ErrorCategory.TIMEOUT),
    (impit.HTTPError, ErrorCategory.NETWORK),
    (httpx.HTTPError, ErrorCategory.NETWORK),
    (ConnectionError, ErrorCategory.NETWORK),
    (json.JSONDecodeError, ErrorCategory.NETWORK),
    (SealError, ErrorCategory.AUTHENTICATION),
    (PermissionError, ErrorCategory.PERMISSION),
    (OSError, ErrorCategory.FILESYSTEM),
)

_UNREADABLE = (impit.DecodingError, impit.TooManyRedirects, httpx.DecodingError, httpx.TooManyRedirects)
"""Responses that cannot be decoded, or only lead on to others."""

_HINTS = {
    ErrorCategory.AUTHENTICATION: "Check the Apify token: it is missing, wrong or revoked.",
    ErrorCategory.PAYMENT: "Check the account's limits and balance, or raise the budget of the call.",
    ErrorCategory.PERMISSION: "This account may not do that; ask its owner or choose another Actor.",
    ErrorCategory.NOT_FOUND: "Check the name or id; it may have been deleted or belong to another account.",
    ErrorCategory.CAPACITY: "The account's memory or run limit is reached; the call continues when runs finish.",
    ErrorCategory.RATE_LIMIT: "Too many requests; the call is retried more slowly.",
}

_PROVIDER_HINTS = {
    ErrorCategory.AUTHENTICATION: "Check the provider's key in the worker's settings: it is missing, wrong or revoked.",
    ErrorCategory.PAYMENT: "Check the balance and the limits of the account at the model provider.",
    ErrorCategory.PERMISSION: "The provider's key may not use this model; choose another one.",
    ErrorCategory.NOT_FOUND: "Check the model's name: the provider does not offer a model of this name to this key.",
    ErrorCategory.RATE_LIMIT: _HINTS[ErrorCategory.RATE_LIMIT],
}
_NO_NAME = "cannot be used as a URL path segment."
"""The end of the message of apify-client's (3.4) `ValueError` for an invalid id or name."""
_TOO_LONG = re.compile(r"(?i)context[ _]length|context window|prompt is too long|too many tokens|maximum context")
_TOO_LONG_HINT = "The conversation is too long for this model: start a new one, or choose a model that takes more."

_SECRET_PATTERNS = (
    re.compile(r"apify_(?:api|proxy)_[\w-]{8,}"),
    # Keys of model providers, whole or shortened with asterisks as in their own messages.
    re.compile(r"\bsk-[\w*-]{8,}"),
    re.compile(r"(?i)\b(?:bearer|basic)\s+[^\s\"'&,;]{6,}"),
    # Tokens are not words, so that "No token: neither ..." is prose; passwords may be.
    re.compile(
        r"(?i)\b(?:(?:token|api[_-]?key)(?!: (?-i:[A-Za-z][a-z]{0,13})(?:[ .,;]|$))|password|secret|authorization)"
        r"[\"']?\s*[=:]\s*"
        r"(?!\[redacted\])[\"']?[^\s\"'&,;]{6,}"
    ),
    re.compile(r"(?<=://)[^/@\s:]+:[^/@\s]+(?=@)"),
)


class ToolFailure(Exception):
    """An expected failure of a tool: its envelope is the error of the call. `ToolFailure.of` makes one from a text."""

    def __init__(self, envelope: ErrorEnvelope) -> None:
        if not isinstance(envelope, ErrorEnvelope):  # pyright: ignore[reportUnnecessaryIsInstance]  # authors may err
            raise TypeError(
                f"ToolFailure takes an ErrorEnvelope, not {type(envelope).__name__}. For a text, write "
                'ToolFailure.of(ErrorCategory.NOT_FOUND, "There is no such order.").'
            )
        super().__init__(envelope.message)
        self.envelope = envelope

    @classmethod
    def of(
        cls, category: ErrorCategory, message: str, hint: str | None = None, *, retryable: bool = False
    ) -> "ToolFailure":
        """Return the failure of this category: `message` says what failed, `hint` what the caller can do.

        A `retryable` one is repeated as often as the tool's `retries` allow. The tool's name is added later. Raises
        `ValueError` for an unknown category.
        """
        if category not in list(ErrorCategory):
            raise ValueError(f"{category!r} is not a category of errors; use one of: {', '.join(ErrorCategory)}.")
        envelope = ErrorEnvelope.transient if retryable else ErrorEnvelope.permanent
        return cls(envelope(category, "", message, hint=hint))


def without_credentials(text: str) -> str:
    """`text`, as valid Unicode, without anything that looks like a credential."""
    text = valid_text(text)
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
        ready = error.envelope
        update = {"tool": tool or ready.tool, "attempt": attempt, "message": redact(ready.message)}
        return ready.model_copy(update=update)
    category = _category(error)
    return ErrorEnvelope(
        tool=tool,
        message=redact(_message(error)),
        category=category,
        retryable=category in RETRYABLE,
        attempt=attempt,
        hint=_hint(error, category),
        violations=_violations(error, category),
    )


def failure(envelope: ErrorEnvelope, *, retry_delay: timedelta | None = None) -> ApplicationError:
    """The `ApplicationError` that carries `envelope` through Temporal; its flag decides whether it is retried. Temporal
    never repeats what was refused for money: the caller decides whether to wait for more.
    """
    if retry_delay is None and envelope.category is ErrorCategory.CAPACITY:
        retry_delay = CAPACITY_RETRY_DELAY
    return ApplicationError(
        envelope.message,
        envelope,
        type=envelope.category.value,
        non_retryable=not envelope.retryable or envelope.category is ErrorCategory.PAYMENT,
        next_retry_delay=retry_delay,
    )


def retry_delay_of(error: BaseException) -> timedelta | None:
    """Return the pause that the provider asks for before the next request; None without one."""
    return error.retry_after if isinstance(error, ProviderError) else None


def may_be_permanent(error: BaseException) -> bool:
    """Return True if a transient `error` may in fact be permanent. An example is a response
    that cannot be read: a proxy may have answered once in the platform's place, or the platform answers in a way that
    this version cannot read. Outages (no connection, time-outs, 429, 5xx) pass.
    """
    if isinstance(error, (json.JSONDecodeError, ValidationError, *_UNREADABLE)):
        return True
    return apify.is_loaded() and isinstance(error, apify.InvalidResponseBodyError)


def category_of_status(status: int) -> ErrorCategory:
    """Return the category of an HTTP status of 400 or more."""
    return _BY_STATUS.get(status, ErrorCategory.PLATFORM if status >= 500 else ErrorCategory.UNKNOWN)


def _answer_of_platform(error: BaseException) -> "apify.ApifyApiError | None":
    """`error`, when it is what the platform answered."""
    return error if apify.is_loaded() and isinstance(error, apify.ApifyApiError) else None


def _category(error: BaseException) -> ErrorCategory:
    if answer := _answer_of_platform(error):
        return ErrorCategory.CAPACITY if answer.type in _CAPACITY_TYPES else category_of_status(answer.status_code)
    if apify.is_loaded() and isinstance(error, apify.InvalidResponseBodyError):
        # The connection broke in the middle of a body, or a proxy answered in the platform's place.
        return ErrorCategory.NETWORK
    if isinstance(error, ProviderError):
        return _category_of_provider_error(error)
    if _is_no_name(error):
        return ErrorCategory.NOT_FOUND
    if isinstance(error, ValidationError):
        return ErrorCategory.PLATFORM if _is_of_platform(error) else ErrorCategory.UNKNOWN
    return next((category for kind, category in _BY_TYPE if isinstance(error, kind)), ErrorCategory.UNKNOWN)


def _is_of_platform(error: ValidationError) -> bool:
    """Return True if a response of the platform does not fit a model of apify-client. All other models are our own."""
    return apify.is_loaded() and apify.is_model(error.title)


def _is_no_name(error: BaseException) -> bool:
    """Return True if apify-client refuses an id or a name, for example `..`: nothing has that name."""
    return isinstance(error, ValueError) and str(error).endswith(_NO_NAME)


def _category_of_provider_error(error: ProviderError) -> ErrorCategory:
    known = next((_BY_PROVIDER_KIND[kind] for kind in error.kinds if kind in _BY_PROVIDER_KIND), None)
    if known is not None:
        return known
    # A connection that broke without a reason counts as a failure of the provider.
    return ErrorCategory.PLATFORM if error.status is None else category_of_status(error.status)


def _hint(error: BaseException, category: ErrorCategory) -> str | None:
    if not isinstance(error, ProviderError):
        return _HINTS.get(category)
    if category is ErrorCategory.VALIDATION and _TOO_LONG.search(" ".join((*error.kinds, error.message))):
        return _TOO_LONG_HINT
    return _PROVIDER_HINTS.get(category)


def _message(error: BaseException) -> str:
    if answer := _answer_of_platform(error):
        label = f" ({answer.type})" if answer.type else ""
        return f"The platform answered {answer.status_code}{label}: {answer.message}"
    if isinstance(error, ProviderError):
        code = " ".join(filter(None, (str(error.status or ""), f"({error.kinds[0]})" if error.kinds else "")))
        return f"Model provider {error.provider_id}{f' {code}' if code else ''}: {error.message}"
    if isinstance(error, ValueError) and (unreadable := _message_of_unreadable(error)):
        return unreadable
    text = str(error).strip()
    if _is_no_name(error):
        return f"Nothing has this name: {text}"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _message_of_unreadable(error: ValueError) -> str | None:
    """Return the message for a value that cannot be read, which is not quoted; None for any other error."""
    if isinstance(error, json.JSONDecodeError):
        return f"A response is not valid JSON: {error.msg}."
    if not isinstance(error, ValidationError):
        return None
    differences = f"({error.error_count()} differences)"
    if _is_of_platform(error):
        return f"The platform's response does not match its documented schema {differences}."
    return f"Outlast has a defect: a value does not fit its model {error.title} {differences}."


def _violations(error: BaseException, category: ErrorCategory) -> tuple[Violation, ...] | None:
    answer = _answer_of_platform(error)
    if category is ErrorCategory.VALIDATION and answer is not None and answer.message:
        return (Violation(path="/input", message=redact(answer.message)),)
    return None


Kind = Literal["run", "dataset", "key-value store"]

_ID = re.compile(r"[A-Za-z0-9]{10,25}")
_CHECK = "Check the id; it may have been deleted or belong to another account."


def not_found(message: str, hint: str = _CHECK) -> ToolFailure:
    """Return a failure of the category `not_found`, which is not retried."""
    return ToolFailure.of(ErrorCategory.NOT_FOUND, message, hint)


async def explain_not_found(client: "apify.ApifyClientAsync", wanted: Kind, given: str) -> ToolFailure:
    """The failure for a `wanted` with the id `given` that does not exist; it names the object that has this id. A run
    is wanted for its log: a run that exists has none.
    """
    message = f"There is no {wanted} {given!r}."
    if not _ID.fullmatch(given):
        return not_found(message)
    # A lookup that fails is ignored: the answer is "not found" in any case.
    run, dataset, store = await asyncio.gather(
        client.run(given).get(),
        client.dataset(given).get(),
        client.key_value_store(given).get(),
        return_exceptions=True,
    )
    if wanted == "run" and run is not None and not isinstance(run, BaseException):
        return not_found(f"Run {given!r} has no log.", "It has written nothing, or its log was deleted.")
    if run is not None and not isinstance(run, BaseException):
        ids = f"its dataset is {run.default_dataset_id}, its key-value store {run.default_key_value_store_id}"
        return not_found(f"{message} It is the id of a run: {ids}.", "Call again with the id of the storage.")
    for other, found in (("dataset", dataset), ("key-value store", store)):
        if other != wanted and found is not None and not isinstance(found, BaseException):
            return not_found(f"{message} It is the id of a {other}.", f"Use the tools for a {other}.")
    return not_found(message)


ENOUGH: Final = 5
"""After so many failures of one kind in a row the task is signalled, and retries may end."""
_LONG_ATTEMPT = timedelta(minutes=5)
"""An attempt that worked for longer has made progress: its failure is the first one."""
_MAX_ACTIVITIES = 20_000
_DIGITS = re.compile(r"\d+")


@dataclass(frozen=True, slots=True)
class _Seen:
    kind: str
    count: int


_seen: LRUCache[tuple[str, str], _Seen] = LRUCache(_MAX_ACTIVITIES)


def count_failure(info: activity.Info, envelope: ErrorEnvelope) -> int:
    """Return the number of attempts that have failed in a row with this category and message, this one included."""
    key = _key_of(info)
    kind = f"{envelope.category}:{_DIGITS.sub('#', envelope.message)[:300]}"
    before = _seen.get(key)
    made_progress = datetime.now(UTC) - info.started_time > _LONG_ATTEMPT
    is_same = before is not None and before.kind == kind and not made_progress
    count = before.count + 1 if is_same and before is not None else 1
    _seen[key] = _Seen(kind, count)
    return count


def failures_in_a_row(info: activity.Info) -> int:
    """As `count_failure` counted them last; 0 before the first."""
    seen = _seen.get(_key_of(info))
    return seen.count if seen is not None else 0


def _key_of(info: activity.Info) -> tuple[str, str]:
    return info.workflow_run_id or "", info.activity_id


ATTEMPTS_FAIL_SIGNAL = "attempts_fail"
"""Tells a tool call's workflow, in words, that one of its activities fails again and again."""
_TOLD_WORKFLOW = "ToolCallWorkflow"


_FOR_ROOM, _FOR_THE_PLATFORM = Line(per_second=20), Line(per_second=50)
"""Activities of each caller that are tried again because the account is full, and because of an outage."""


@contextmanager
def as_activity_failure(*, waits_of: str | None = None) -> Generator[None]:
    """Turn an exception of the block into an `ApplicationError` with its envelope, without a cause: Temporal would
    write its unredacted text into the history. Temporal's own errors and cancellation pass. `waits_of` is the caller of
    an activity of which thousands may wait: the pauses grow with their number.
    """
    try:
        yield
    except TemporalError as error:
        raise error from None
    except Exception as error:  # noqa: BLE001 (every failure gets an envelope)
        info = activity.info()
        envelope = classify(error, attempt=info.attempt)
        if envelope.category is ErrorCategory.UNKNOWN:
            activity.logger.exception("An activity failed in a way that has no category")
        if envelope.retryable and count_failure(info, envelope) >= ENOUGH and may_be_permanent(error):
            envelope = _given_up(envelope)
        delay = retry_delay_of(error)
        if waits_of is not None and envelope.retryable and not info.is_local:
            delay = _in_line(info, envelope, waits_of, delay)
        raise failure(envelope, retry_delay=delay) from None


def _in_line(info: activity.Info, envelope: ErrorEnvelope, caller_id: str, delay: timedelta | None) -> timedelta | None:
    """Return the pause before the next attempt, where others wait as well; `delay` while they are few."""
    waits_for_room = envelope.category is ErrorCategory.CAPACITY
    own = delay or (CAPACITY_RETRY_DELAY if waits_for_room else _own_pause(info))
    line = _FOR_ROOM if waits_for_room else _FOR_THE_PLATFORM
    pause = line.pause(f"{info.activity_type} {caller_id}", own)
    return pause if pause > own else delay


def _own_pause(info: activity.Info) -> timedelta:
    """Return the pause that the activity's retry policy would make."""
    policy = info.retry_policy
    if policy is None:
        return timedelta(0)
    longest = policy.maximum_interval or policy.initial_interval * 100
    return min(policy.initial_interval * policy.backoff_coefficient ** min(info.attempt - 1, 20), longest)


def _given_up(envelope: ErrorEnvelope) -> ErrorEnvelope:
    message = f"{envelope.message} It failed in the same way {ENOUGH} times and is not retried."
    return envelope.model_copy(update={"message": message, "retryable": False})


class RepeatedFailures(Interceptor):
    """Tells the workflow of a tool call when one of its activities has failed in the same way `ENOUGH` times in a row.
    A reader of the task sees each failed attempt as it is, from Temporal's description. The workflow shows it to
    operators, in its current details.
    """

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:  # noqa: A002 (the SDK's name)
        """Look at the failures of a worker's activities."""
        return _Telling(next)


class _Telling(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:  # noqa: A002 (the SDK's name)
        try:
            return await super().execute_activity(input)
        except ApplicationError as error:
            info = activity.info()
            if not info.is_local and not error.non_retryable and info.workflow_type == _TOLD_WORKFLOW:
                await _tell(info, error)
            raise


async def _tell(info: activity.Info, error: ApplicationError) -> None:
    if failures_in_a_row(info) != ENOUGH or info.workflow_id is None:
        return
    words = f"{info.activity_type} has failed {ENOUGH} times in the same way, and is tried again: {error.message}"
    workflow = activity.client().get_workflow_handle(info.workflow_id, run_id=info.workflow_run_id)
    try:
        await workflow.signal(ATTEMPTS_FAIL_SIGNAL, words)
    except Exception as not_told:  # noqa: BLE001 (the failure itself is what matters)
        activity.logger.warning("The signal about a failing activity was not sent: %s", type(not_told).__name__)
