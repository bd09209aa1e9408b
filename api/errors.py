"""The errors of the API. Each front door reports them in its own protocol; status, slug and title are decided here."""

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.output_errors import OutputErrorReason


class ApiError(Exception):
    """An error that a client reads. `title` is the same for every occurrence; the message says what to do."""

    status = 500
    slug = "internal"
    title = "Internal error"


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


def tool_error(error: ApiError, tool: str) -> ErrorEnvelope:
    """`error` as an error of `tool`, for a model that called it."""
    if isinstance(error, InvalidCall):
        return error.envelope
    category = _CATEGORIES.get(error.status, ErrorCategory.VALIDATION)
    factory = ErrorEnvelope.transient if error.status in (429, 503) else ErrorEnvelope.permanent
    return factory(category, tool, str(error))


class InvalidCall(ApiError):
    """The tool is unknown, or the arguments break its schema; nothing was started."""

    status = 422
    slug = "invalid-call"
    title = "The call is invalid"

    def __init__(self, envelope: ErrorEnvelope) -> None:
        """Carry the envelope."""
        super().__init__(envelope.message)
        self.envelope = envelope


class UnfitInput(InvalidCall):
    """The input that a call has for an Actor breaks the Actor's own schema; nothing was started."""

    def __init__(self, envelope: ErrorEnvelope, input_schema: JsonObject) -> None:
        """Carry the envelope, and the schema."""
        super().__init__(envelope)
        self.input_schema = input_schema


class UnpaidCall(InvalidCall):
    """The call lacks its payment; nothing was started."""

    def __init__(self, envelope: ErrorEnvelope, terms: JsonObject | None) -> None:
        """Carry the envelope, and the platform's terms (x402, PaymentRequired) where they are known."""
        super().__init__(envelope)
        self.terms = terms


class UnknownToolCalled(InvalidCall):
    """There is no such tool."""

    status = 404
    slug = "unknown-tool"
    title = "There is no such tool"


class MaskedToolCalled(InvalidCall):
    """The mask of the request switches the tool off; nothing was started."""

    status = 403
    slug = "tool-masked"
    title = "The tool is switched off by the mask of the request"


class AnswerNotTaken(InvalidCall):
    """The question is no longer open: it was answered, it timed out, or the task is being cancelled."""

    status = 409
    slug = "answer-not-taken"
    title = "The answer was not taken"


class CallTooLarge(ApiError):
    """The arguments are larger than a worker may be given. Nothing was started."""

    status = 413
    slug = "call-too-large"
    title = "The arguments are too large"

    def __init__(self, message: str, *, tool: str = "") -> None:
        """Say so of a call of `tool`."""
        super().__init__(message)
        self.envelope = ErrorEnvelope.permanent(ErrorCategory.VALIDATION, tool, message)


class TaskDataLost(ApiError):
    """Arguments or a result of the task were too large for its history, and are gone from the store, or damaged."""

    status = 410
    slug = "task-data-lost"
    title = "Stored data of the task is lost"


class TaskDataUnavailable(ApiError):
    """The store that holds large arguments and results does not answer. Nothing is lost; ask again."""

    status = 503
    slug = "task-data-unavailable"
    title = "The store of large arguments and results does not answer"


class OutputRefusal(ApiError):
    """A stored output, or the selected part of it, is not available; `slug` says why."""

    def __init__(self, reason: OutputErrorReason, envelope: ErrorEnvelope) -> None:
        """Carry the envelope."""
        super().__init__(f"{envelope.message} {envelope.hint or ''}".strip())
        self.envelope = envelope
        self.status, self.title = _OUTPUT_REFUSALS[reason]
        self.slug = "output-" + reason.replace("_", "-")


_OUTPUT_REFUSALS: dict[OutputErrorReason, tuple[int, str]] = {
    "malformed": (400, "The locator is malformed"),
    "foreign": (403, "The output belongs to another caller"),
    "unknown": (404, "There is no such output"),
    "expired": (410, "The output has expired"),
    "deleted": (410, "The output was deleted"),
    "damaged": (500, "The output is damaged"),
    "bad_selection": (422, "The selection cannot be carried out"),
}


class OutputStoreUnavailable(ApiError):
    """The object store does not answer. Nothing is lost; ask again."""

    status = 503
    slug = "output-store-unavailable"
    title = "The store of outputs does not answer"


class TaskNotFound(ApiError):
    """The caller has no such task. A task of another caller gives the same error."""

    status = 404
    slug = "task-not-found"
    title = "There is no such task"


class SessionNotFound(ApiError):
    """The caller has no such session. A session of another caller gives the same error."""

    status = 404
    slug = "session-not-found"
    title = "There is no such session"


class SessionDiffers(ApiError):
    """A session with this id exists, with other settings or with a conversation of its own."""

    status = 409
    slug = "session-differs"
    title = "The session exists and is another one"


class MessageDiffers(ApiError):
    """The message id was used for another message."""

    status = 409
    slug = "message-differs"
    title = "The message id belongs to another message"


class SessionGone(ApiError):
    """The session has expired or was deleted, and its conversation with it. Another one may take its id."""

    status = 410
    slug = "session-gone"
    title = "The session is over"


class TurnNotFound(ApiError):
    """The session has no such turn, or Temporal no longer keeps its history."""

    status = 404
    slug = "turn-not-found"
    title = "There is no such turn"


class TurnRunning(ApiError):
    """Another turn of the session has not ended."""

    status = 409
    slug = "turn-running"
    title = "A turn of this session is running"


class TaskRunning(ApiError):
    """A task of the session has not ended, so the session cannot be deleted."""

    status = 409
    slug = "task-running"
    title = "A task of this session is running"


class TurnFinished(ApiError):
    """The turn has ended, so it cannot be cancelled."""

    status = 409
    slug = "turn-finished"
    title = "The turn has already ended"


class BudgetUsedUp(ApiError):
    """A budget of the session is used up. No turn was started."""

    status = 402
    slug = "budget-used-up"
    title = "A budget of the session is used up"


class ConversationLost(ApiError):
    """The requested data is no longer kept: messages that the store has lost, or events that Temporal has removed."""

    status = 410
    slug = "conversation-lost"
    title = "The conversation is no longer kept"


class TaskFinished(ApiError):
    """The task has ended, so it cannot be cancelled."""

    status = 409
    slug = "task-finished"
    title = "The task has already ended"


class NotResurrectable(ApiError):
    """The task has no run that can go on, or should. Nothing was started."""

    status = 409
    slug = "not-resurrectable"
    title = "The run of the task is not resurrected"


class NoRows(ApiError):
    """The task has ended and has no rows: it started no run, and its answer is not stored as rows."""

    status = 409
    slug = "no-rows"
    title = "The task has no rows"


class RowsGone(ApiError):
    """The dataset that holds the rows is no longer on the platform."""

    status = 410
    slug = "rows-gone"
    title = "The rows are no longer kept"


class RowsRefused(ApiError):
    """The platform does not show the rows to the caller, or one of them is too large."""

    status = 422
    slug = "rows-refused"
    title = "The rows cannot be read"


class BatchNotFound(ApiError):
    """The caller has no such batch. A batch of another caller gives the same error."""

    status = 404
    slug = "batch-not-found"
    title = "There is no such batch"


class BatchRefused(InvalidCall):
    """Some of the items are no calls of the tool; nothing was started. The violations name their lines."""

    slug = "batch-refused"
    title = "Items of the batch are invalid"


class BatchTooLarge(ApiError):
    """The batch has more items, or more bytes, than it may. Nothing was started."""

    status = 413
    slug = "batch-too-large"
    title = "The batch is too large"


class UnsupportedMedia(ApiError):
    """The body has a form that is not read here."""

    status = 415
    slug = "unsupported-media-type"
    title = "The body has another form"


class BatchFinished(ApiError):
    """The batch has ended, so it cannot be cancelled."""

    status = 409
    slug = "batch-finished"
    title = "The batch has already ended"


class BatchRunning(ApiError):
    """The batch has not ended, so nothing of it can be resumed or retried."""

    status = 409
    slug = "batch-running"
    title = "The batch is running"


class NothingToRun(ApiError):
    """No item of the batch is left to be resumed or retried."""

    status = 409
    slug = "nothing-to-run"
    title = "Nothing of the batch is left to run"


class SavedCallNotFound(ApiError):
    """The caller has saved no call under this name."""

    status = 404
    slug = "saved-call-not-found"
    title = "There is no such saved call"


class IdempotencyKeyReused(ApiError):
    """The idempotency key was used with another request."""

    status = 409
    slug = "idempotency-key-reused"
    title = "The idempotency key belongs to another request"


class UsageForbidden(ApiError):
    """The caller may not see what others have spent."""

    status = 403
    slug = "usage-forbidden"
    title = "The usage of others is not shown"


class BadRequest(ApiError):
    """A parameter is malformed."""

    status = 400
    slug = "bad-request"
    title = "The request is malformed"


class UnknownParameter(BadRequest):
    """A query parameter has a name that nothing reads."""

    status = 422
    slug = "invalid-request"
    title = "The request does not fit its schema"


class Unauthenticated(ApiError):
    """The credential is missing or unknown."""

    status = 401
    slug = "unauthenticated"
    title = "A valid bearer token is needed"
    challenge: str | None = None
    """The `WWW-Authenticate` header, where it is more than the plain one."""
    is_repeated = False
    """Whether the same credential was refused before, so that it did not count as a guess of its address."""


class UnknownHost(ApiError):
    """The `Host` header names another server."""

    status = 400
    slug = "unknown-host"
    title = "This server does not answer to that name"


class CrossSiteRequest(ApiError):
    """A web page of another site sent the request. Nothing was done."""

    status = 403
    slug = "cross-site"
    title = "Pages of other sites may not send this request"


class CredentialEnded(Unauthenticated):
    """The credential was revoked, has expired or lost a right while the request was being answered."""

    slug = "credential-ended"
    title = "The credential is no longer good"


class TooManyRequests(ApiError):
    """The caller, or the address, asks for more than it may. Nothing was started."""

    status = 429
    slug = "too-many-requests"
    title = "Too many requests"

    def __init__(self, message: str, *, retry_after_seconds: float) -> None:
        """Say so, and after how many seconds the request may be repeated."""
        super().__init__(message)
        self.retry_after_seconds = retry_after_seconds


class ApproverNeeded(ApiError):
    """The call has to be approved by another caller than its own."""

    status = 403
    slug = "approver-needed"
    title = "Another caller has to approve this"


class StorageFull(ApiError):
    """The caller's stored outputs take more space than they may. Nothing was started."""

    status = 507
    slug = "storage-full"
    title = "Your stored outputs take too much space"


class ForbiddenScope(ApiError):
    """The key has not the scope that this needs."""

    status = 403
    slug = "forbidden-scope"
    title = "The key lacks a scope"

    def __init__(self, message: str, *, challenge: str | None = None) -> None:
        """Say so. `challenge` is the `WWW-Authenticate` header that names the scope to an OAuth client."""
        super().__init__(message)
        self.challenge = challenge


class ModelForbidden(ApiError):
    """The operator's policy does not let the caller use this model. No turn was started."""

    status = 403
    slug = "model-forbidden"
    title = "The model is not for this caller"


class KeyChecksBusy(ApiError):
    """More secrets of one key than can wait were shown and are not verified yet."""

    status = 429
    slug = "key-checks-busy"
    title = "Too many keys wait to be checked"


class SchemaChecksBusy(ApiError):
    """The machine is too busy to check a value against an Actor's input schema. Nothing was started."""

    status = 503
    slug = "schema-checks-busy"
    title = "The machine is too busy to check the call"


class IssuerUnavailable(ApiError):
    """The authorization server does not answer, so that an access token could not be checked. Nothing was started."""

    status = 503
    slug = "issuer-unavailable"
    title = "The authorization server does not answer"


class ApifyTokenMissing(ApiError):
    """The operator's policy names an Apify token for the caller that cannot be read. Nothing was started."""

    status = 503
    slug = "apify-token-missing"
    title = "The caller's Apify token cannot be read"


class AuditUnavailable(ApiError):
    """The audit log cannot be written, and the operator wants nothing done without it."""

    status = 503
    slug = "audit-unavailable"
    title = "The audit log cannot be written"


class TemporalUnavailable(ApiError):
    """The Temporal server does not answer. Nothing is lost; ask again."""

    status = 503
    slug = "temporal-unavailable"
    title = "The task store does not answer"


class TemporalBusy(TemporalUnavailable):
    """The Temporal server limits requests: more came at once than it takes. Nothing is lost; ask again."""

    status = 429
    slug = "too-many-requests"
    title = "Too many requests"


class PlatformUnavailable(ApiError):
    """The Apify platform does not answer, so that the call could not be checked. Nothing was started."""

    status = 503
    slug = "platform-unavailable"
    title = "The Apify platform does not answer"
