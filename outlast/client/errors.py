"""The errors of the client. `OutlastError` is the base of all of them.

OutlastError
├── BadSettings              an address or a token that cannot be used; nothing was sent
├── ConnectionFailed         no answer came
│   ├── NoServer             no address is known: no stack runs, and no URL was given
│   └── ForeignServer        another program answers at the stack's address
├── UnexpectedAnswer         the answer is not one of an Outlast server
├── ApiError                 the server refused; carries its problem document
│   ├── InvalidRequest       400, 413, 416, 422
│   ├── Unauthenticated      401
│   ├── PermissionDenied     403
│   ├── NotFound             404, and 410 for what has expired
│   ├── Conflict             409
│   ├── RateLimited          429
│   └── Unavailable          502, 503, 504
├── TaskFailed               the tool answered with an error, or the task was cancelled
└── WaitTimedOut             the time given for waiting is over; the task goes on
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pydantic import JsonValue

if TYPE_CHECKING:
    from outlast.client.contracts.tasks import TaskAnswer, ToolError, Violation


class OutlastError(Exception):
    """Base of all errors of the client. `message` says what is wrong, `hint` what to do about it."""

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class BadSettings(OutlastError):
    """An address or a token cannot be used. Nothing was sent."""


class ConnectionFailed(OutlastError):
    """The server at `url` did not answer, also after the retries."""

    def __init__(self, message: str, *, url: str | None = None, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.url = url


class NoServer(ConnectionFailed):
    """No stack runs on the data directory, and no address was given."""


class ForeignServer(ConnectionFailed):
    """Another program, or another stack, answers at the stack's address."""


class UnexpectedAnswer(OutlastError):
    """The server's answer does not have the form of an Outlast server's answers."""


class ApiError(OutlastError):
    """The server refused the request.

    `problem` is its problem document (RFC 9457), empty when it sent none; `violations` are the places of the request
    that break a schema; `allowed_tools` are the tools that could be called instead, where the server names them.
    """

    def __init__(
        self,
        message: str,
        *,
        status: int,
        problem: Mapping[str, JsonValue] | None = None,
        violations: "tuple[Violation, ...]" = (),
        allowed_tools: tuple[str, ...] = (),
        hint: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.status = status
        self.problem = dict(problem or {})
        self.violations = violations
        self.allowed_tools = allowed_tools
        self.retry_after_seconds = retry_after_seconds


class InvalidRequest(ApiError):
    """The request breaks a schema or a limit (400, 413, 416, 422)."""


class Unauthenticated(ApiError):
    """There is no valid credential (401)."""


class PermissionDenied(ApiError):
    """The caller may not do this (403)."""


class NotFound(ApiError):
    """There is no such thing for this caller (404), or it has expired (410)."""


class Conflict(ApiError):
    """The state of the thing does not allow this (409): it has ended, or the key belongs to another request."""


class RateLimited(ApiError):
    """There were too many requests (429), also after the retries."""


class Unavailable(ApiError):
    """The server cannot do this now (502, 503, 504), also after the retries."""


class TaskFailed(OutlastError):
    """A task failed or was cancelled. `answer` is all that is known of it; `error` is the tool's error envelope."""

    def __init__(self, answer: "TaskAnswer") -> None:
        result = answer.result
        self.answer = answer
        self.task_id = answer.task.id
        self.error: ToolError | None = result.error if result else None
        message = self.error.message if self.error else (result.text if result else answer.task.status_message)
        super().__init__(
            f"Task {answer.task.id} ({answer.task.tool}) {_ENDED.get(answer.task.status, 'failed')}: {message or '-'}",
            hint=self.error.hint if self.error else None,
        )


class WaitTimedOut(OutlastError, TimeoutError):
    """The time that was given for waiting is over. The task, or the turn, goes on."""


_ENDED = {"cancelled": "was cancelled"}
