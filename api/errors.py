"""Errors of the API, each with its HTTP status, slug and title. Entry points report them in their own protocols."""

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.failures.exceptions import OutputErrorReason

_CATEGORIES = {
    401: ErrorCategory.AUTHENTICATION,
    402: ErrorCategory.PAYMENT,
    403: ErrorCategory.PERMISSION,
    404: ErrorCategory.NOT_FOUND,
    409: ErrorCategory.CONFLICT,
    410: ErrorCategory.NOT_FOUND,
    429: ErrorCategory.RATE_LIMIT,
    503: ErrorCategory.NETWORK,
    507: ErrorCategory.CAPACITY,
}
_OUTPUT_REFUSALS: dict[OutputErrorReason, tuple[int, str]] = {
    "malformed": (400, "The locator is malformed"),
    "foreign": (403, "The output belongs to another caller"),
    "unknown": (404, "There is no such output"),
    "expired": (410, "The output has expired"),
    "deleted": (410, "The output was deleted"),
    "damaged": (500, "The output is damaged"),
    "bad_selection": (422, "The selection cannot be evaluated"),
}


class ApiError(Exception):
    """An error of a request. The title is the same for every occurrence; the message has the remedy."""

    status: int = 500
    slug: str = "internal"
    title: str = "Internal error"

    def __init_subclass__(cls, *, status: int | None = None, slug: str | None = None, title: str | None = None) -> None:
        """Set the facts of a kind of error; a fact that is absent is that of its base class."""
        super().__init_subclass__()
        cls.status = cls.status if status is None else status
        cls.slug = slug or cls.slug
        cls.title = title or cls.title


class InvalidCall(ApiError, status=422, slug="invalid-call", title="The call is invalid"):
    """The tool is unknown, or the arguments break its schema; nothing was started."""

    def __init__(self, envelope: ErrorEnvelope) -> None:
        super().__init__(envelope.message)
        self.envelope = envelope


class UnfitInput(InvalidCall):
    """The input that a call has for an Actor breaks the Actor's own schema; nothing was started."""

    def __init__(self, envelope: ErrorEnvelope, input_schema: JsonObject) -> None:
        super().__init__(envelope)
        self.input_schema = input_schema


class UnpaidCall(InvalidCall):
    """The call lacks its payment; nothing was started."""

    def __init__(self, envelope: ErrorEnvelope, terms: JsonObject | None) -> None:
        """Carry the envelope, and the platform's terms (x402, PaymentRequired) where they are known."""
        super().__init__(envelope)
        self.terms = terms


class UnknownToolCalled(InvalidCall, status=404, slug="unknown-tool", title="There is no such tool"):
    """The tool does not exist."""


class MaskedToolCalled(
    InvalidCall, status=403, slug="tool-masked", title="The tool is switched off by the mask of the request"
):
    """The mask of the request switches the tool off; nothing was started."""


class ToolQuarantined(InvalidCall, status=403, slug="tool-quarantined", title="The tool is quarantined"):
    """The tool of an MCP server is not the one that the operator has pinned; nothing was started."""


class AnswerNotTaken(InvalidCall, status=409, slug="answer-not-taken", title="The answer was not accepted"):
    """The question is no longer open: it was answered, it timed out, or the task is being cancelled."""


class CallTooLarge(ApiError, status=413, slug="call-too-large", title="The arguments are too large"):
    """The arguments are larger than a worker may be given. Nothing was started."""

    def __init__(self, message: str, *, tool: str = "") -> None:
        super().__init__(message)
        self.envelope = ErrorEnvelope.permanent(ErrorCategory.VALIDATION, tool, message)


class TaskDataLost(ApiError, status=410, slug="task-data-lost", title="Stored data of the task is lost"):
    """Arguments or a result of the task were too large for its history, and are gone from the store, or damaged."""


class TaskDataUnavailable(
    ApiError, status=503, slug="task-data-unavailable", title="The store of large arguments and results does not answer"
):
    """The store of large arguments and results does not answer. Nothing is lost; try again."""


class OutputRefusal(ApiError):
    """A stored output, or the selected part of it, is not available; `slug` has the reason."""

    def __init__(self, reason: OutputErrorReason, envelope: ErrorEnvelope) -> None:
        super().__init__(f"{envelope.message} {envelope.hint or ''}".strip())
        self.envelope = envelope
        self.status, self.title = _OUTPUT_REFUSALS[reason]
        self.slug = "output-" + reason.replace("_", "-")


class OutputStoreUnavailable(
    ApiError, status=503, slug="output-store-unavailable", title="The store of outputs does not answer"
):
    """The object store does not answer. Nothing is lost; try again."""


class TaskNotFound(ApiError, status=404, slug="task-not-found", title="There is no such task"):
    """The caller does not have this task. A task of another caller gives the same error."""


class SessionNotFound(ApiError, status=404, slug="session-not-found", title="There is no such session"):
    """The caller does not have this session. A session of another caller gives the same error."""


class SessionDiffers(ApiError, status=409, slug="session-differs", title="Another session has this id"):
    """A session with this id exists, with other settings or with another conversation."""


class MessageDiffers(ApiError, status=409, slug="message-differs", title="The message id belongs to another message"):
    """The message id was used for another message."""


class SessionGone(ApiError, status=410, slug="session-gone", title="The session has ended"):
    """The session has expired or was deleted, and its conversation with it. Another one may take its id."""


class TurnNotFound(ApiError, status=404, slug="turn-not-found", title="There is no such turn"):
    """The session does not have this turn, or Temporal no longer keeps its history."""


class TurnRunning(ApiError, status=409, slug="turn-running", title="A turn of this session is running"):
    """Another turn of the session has not ended."""


class TaskRunning(ApiError, status=409, slug="task-running", title="A task of this session is running"):
    """A task of the session has not ended, so the session cannot be deleted."""


class TurnFinished(ApiError, status=409, slug="turn-finished", title="The turn has already ended"):
    """The turn has ended, so it cannot be cancelled."""


class BudgetUsedUp(ApiError, status=402, slug="budget-used-up", title="A budget of the session is used up"):
    """A budget of the session is used up. No turn was started."""


class ConversationLost(ApiError, status=410, slug="conversation-lost", title="The conversation is no longer kept"):
    """The requested data is no longer kept: messages that the store has lost, or events that Temporal has removed."""


class TaskFinished(ApiError, status=409, slug="task-finished", title="The task has already ended"):
    """The task has ended, so it cannot be cancelled."""


class ServerNotFound(ApiError, status=404, slug="server-not-found", title="There is no such MCP server"):
    """The servers file of the operator does not have this server."""


class NotResurrectable(ApiError, status=409, slug="not-resurrectable", title="The run of the task is not resurrected"):
    """The run of the task cannot be resurrected, or should not be. Nothing was started."""


class NotRepeatable(ApiError, status=409, slug="not-repeatable", title="The call is not made again"):
    """The call cannot be made again from its task."""


class NotResolvable(ApiError, status=409, slug="not-resolvable", title="The task is not resolved"):
    """The outcome of the task is known, or another resolution was recorded first."""


class NoRows(ApiError, status=409, slug="no-rows", title="The task has no rows"):
    """The task has ended and has no rows: it started no run, and its answer is not stored as rows."""


class RowsGone(ApiError, status=410, slug="rows-gone", title="The rows are no longer kept"):
    """The dataset that holds the rows is no longer on the platform."""


class RowsRefused(ApiError, status=422, slug="rows-refused", title="The rows cannot be read"):
    """The platform does not show the rows to the caller, or one of them is too large."""


class BatchNotFound(ApiError, status=404, slug="batch-not-found", title="There is no such batch"):
    """The caller does not have this batch. A batch of another caller gives the same error."""


class BatchRefused(InvalidCall, slug="batch-refused", title="Items of the batch are invalid"):
    """Some of the items are no calls of the tool; nothing was started. The violations name their lines."""


class BatchTooLarge(ApiError, status=413, slug="batch-too-large", title="The batch is too large"):
    """The batch has more items, or more bytes, than it may. Nothing was started."""


class UnsupportedMedia(ApiError, status=415, slug="unsupported-media-type", title="The media type is not supported"):
    """The body has a form that is not read here."""


class BatchFinished(ApiError, status=409, slug="batch-finished", title="The batch has already ended"):
    """The batch has ended, so it cannot be cancelled."""


class BatchRunning(ApiError, status=409, slug="batch-running", title="The batch is running"):
    """The batch has not ended, so nothing of it can be resumed or retried."""


class NothingToRun(ApiError, status=409, slug="nothing-to-run", title="No items of the batch are left to run"):
    """No item of the batch is left to be resumed or retried."""


class SavedCallNotFound(ApiError, status=404, slug="saved-call-not-found", title="There is no such saved call"):
    """The caller has saved no call under this name."""


class IdempotencyKeyReused(
    ApiError, status=409, slug="idempotency-key-reused", title="The idempotency key belongs to another request"
):
    """The idempotency key was used with another request."""


class UsageForbidden(ApiError, status=403, slug="usage-forbidden", title="The usage of others is not shown"):
    """The caller may not see what others have spent."""


class BadRequest(ApiError, status=400, slug="bad-request", title="The request is malformed"):
    """A parameter is malformed."""


class UnknownParameter(BadRequest, status=422, slug="invalid-request", title="The request does not fit its schema"):
    """A query parameter has a name that nothing reads."""


class Unauthenticated(ApiError, status=401, slug="unauthenticated", title="A valid bearer token is needed"):
    """The credential is missing or unknown."""

    challenge: str | None = None
    """The `WWW-Authenticate` header, where it is more than the plain one."""
    is_repeated = False
    """True if the same credential was refused before, so that it did not count as a guess of its address."""


class UnknownHost(ApiError, status=400, slug="unknown-host", title="The server has another host name"):
    """The `Host` header names another server."""


class CrossSiteRequest(ApiError, status=403, slug="cross-site", title="Pages of other sites may not send this request"):
    """A web page of another site sent the request. Nothing was done."""


class CredentialEnded(Unauthenticated, slug="credential-ended", title="The credential is no longer valid"):
    """The credential was revoked, has expired or lost a right while the request was being answered."""


class TooManyRequests(ApiError, status=429, slug="too-many-requests", title="Too many requests"):
    """The caller, or the address, has reached a limit. Nothing was started."""

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ApproverNeeded(ApiError, status=403, slug="approver-needed", title="Another caller has to approve this"):
    """The call has to be approved by another caller than its own."""


class StorageFull(ApiError, status=507, slug="storage-full", title="Your stored outputs take too much space"):
    """The caller's stored outputs take more space than they may. Nothing was started."""


class ForbiddenScope(ApiError, status=403, slug="forbidden-scope", title="The key lacks a scope"):
    """The key has not the scope that this needs."""

    def __init__(self, message: str, *, challenge: str | None = None) -> None:
        """`challenge` is the `WWW-Authenticate` header that names the scope to an OAuth client."""
        super().__init__(message)
        self.challenge = challenge


class ModelForbidden(ApiError, status=403, slug="model-forbidden", title="The caller may not use the model"):
    """The operator's policy does not let the caller use this model. No turn was started."""


class KeyChecksBusy(ApiError, status=429, slug="key-checks-busy", title="Too many keys wait to be checked"):
    """More secrets of one key than can wait were shown and are not verified yet."""


class SchemaChecksBusy(
    ApiError, status=503, slug="schema-checks-busy", title="The machine is too busy to check the call"
):
    """The machine is too busy to check a value against an Actor's input schema. Nothing was started."""


class IssuerUnavailable(
    ApiError, status=503, slug="issuer-unavailable", title="The authorization server does not answer"
):
    """The authorization server does not answer, so that an access token could not be checked. Nothing was started."""


class ApifyTokenMissing(
    ApiError, status=503, slug="apify-token-missing", title="The caller's Apify token cannot be read"
):
    """The operator's policy names an Apify token for the caller that cannot be read. Nothing was started."""


class AuditUnavailable(ApiError, status=503, slug="audit-unavailable", title="The audit log cannot be written"):
    """The audit log cannot be written, and the operator wants nothing done without it."""


class TemporalUnavailable(ApiError, status=503, slug="temporal-unavailable", title="The task store does not answer"):
    """The Temporal server does not answer. Nothing is lost; try again."""


class TemporalBusy(TemporalUnavailable, status=429, slug="too-many-requests", title="Too many requests"):
    """The Temporal server limits requests. Nothing is lost; try again."""


class PlatformUnavailable(
    ApiError, status=503, slug="platform-unavailable", title="The Apify platform does not answer"
):
    """The Apify platform does not answer, so that the call could not be checked. Nothing was started."""


class ScheduleNotFound(ApiError, status=404, slug="schedule-not-found", title="There is no such schedule"):
    """The caller does not have this schedule."""


class ScheduleExists(ApiError, status=409, slug="schedule-exists", title="Another schedule has this id"):
    """The caller has another schedule of this name."""


class ScheduleDamaged(ApiError, status=409, slug="schedule-damaged", title="The schedule is damaged"):
    """The stored call of the schedule is unreadable. Create it again under its id, or delete it."""


class ScheduleRefused(ApiError, status=422, slug="schedule-refused", title="The schedule cannot be kept"):
    """The schedule's times cannot be, or there are too many of them. Nothing was changed."""


class WebhookNotFound(ApiError, status=404, slug="webhook-not-found", title="There is no such webhook"):
    """The caller does not have this webhook or delivery. One of another caller gives the same error."""


class WebhookRefused(ApiError, status=422, slug="webhook-refused", title="The webhook's address may not be reached"):
    """The webhook's address may not be reached; nothing was started or changed."""


class TooManyWebhooks(ApiError, status=409, slug="too-many-webhooks", title="There are too many webhooks"):
    """The caller has as many webhooks as it may."""


class DeliveryRunning(ApiError, status=409, slug="delivery-running", title="The event is being delivered"):
    """The event is being delivered, so it is not sent again."""


def tool_error(error: ApiError, tool: str) -> ErrorEnvelope:
    """`error` as an error of `tool`, for a model that called it."""
    if isinstance(error, InvalidCall):
        return error.envelope
    category = _CATEGORIES.get(error.status, ErrorCategory.VALIDATION)
    factory = ErrorEnvelope.transient if error.status in (429, 503) else ErrorEnvelope.permanent
    return factory(category, tool, str(error))
