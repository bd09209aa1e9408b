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
└── WaitTimedOut             the time given for waiting is over; the task continues
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from pydantic import JsonValue

from outlast.suggestions import suggested

if TYPE_CHECKING:
    from outlast.activities.contracts import Violation
    from outlast.contracts.answers import TaskAnswer
    from outlast.contracts.tasks import ToolError


MOST_VIOLATIONS = 20
"""Violations that the text of an error lists; `violations` has all of them."""


class OutlastError(Exception):
    """Base of all errors of the client. `message` is the problem, `hint` a remedy.

    `str(error)` is for people: the message, then the details, one per line, then the hint.
    """

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        hint = [f"Hint: {self.hint}"] if self.hint and self.hint not in self.message else []
        details = [line for line in self._details() if line.strip() not in self.message]
        return "\n".join([self.message, *details, *hint])

    def _details(self) -> list[str]:
        """Lines between the message and the hint."""
        return []


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

    def _details(self) -> list[str]:
        return [*_listed(self.violations), *_tools(self.allowed_tools)]


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
    """A task failed or was cancelled. `answer` has the task and its result; `error` is the tool's error envelope."""

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

    def _details(self) -> list[str]:
        error = self.error
        return [*_listed(error.violations or ()), *_tools(error.allowed_tools or ())] if error else []


class WaitTimedOut(OutlastError, TimeoutError):
    """The time that was given for waiting is over. The task, or the turn, continues."""


_ENDED = {"cancelled": "was cancelled"}


def _listed(violations: "Sequence[Violation]") -> list[str]:
    lines = [f"  {one.path or '(arguments)'}: {one.message}" for one in violations[:MOST_VIOLATIONS]]
    more = len(violations) - MOST_VIOLATIONS
    return [*lines, f"  ... and {more} more"] if more > 0 else lines


def _tools(names: Sequence[str]) -> list[str]:
    return [f"  Available tools: {suggested(names)}"] if names else []
