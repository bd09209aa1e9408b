"""Responses of the server, as models and errors, and when and for how long a request is repeated.

Shared by both clients.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from types import TracebackType
from typing import Self, TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from outlast.activities.contracts import Violation
from outlast.client import errors
from outlast.client.errors import (
    ApiError,
    ConnectionFailed,
    ForeignServer,
    OutlastError,
    RateLimited,
    Unavailable,
    UnexpectedAnswer,
)
from outlast.client.http import Connection

_USED_LATE = ConfigDict(defer_build=True)
_OBJECT: TypeAdapter[dict[str, JsonValue]] = TypeAdapter(dict[str, JsonValue], config=_USED_LATE)
_KINDS: dict[int, type[ApiError]] = {
    HTTPStatus.BAD_REQUEST: errors.InvalidRequest,
    HTTPStatus.UNAUTHORIZED: errors.Unauthenticated,
    HTTPStatus.FORBIDDEN: errors.PermissionDenied,
    HTTPStatus.NOT_FOUND: errors.NotFound,
    HTTPStatus.CONFLICT: errors.Conflict,
    HTTPStatus.GONE: errors.NotFound,
    HTTPStatus.REQUEST_ENTITY_TOO_LARGE: errors.InvalidRequest,
    HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE: errors.InvalidRequest,
    HTTPStatus.UNPROCESSABLE_ENTITY: errors.InvalidRequest,
    HTTPStatus.TOO_MANY_REQUESTS: errors.RateLimited,
    HTTPStatus.BAD_GATEWAY: errors.Unavailable,
    HTTPStatus.SERVICE_UNAVAILABLE: errors.Unavailable,
    HTTPStatus.GATEWAY_TIMEOUT: errors.Unavailable,
}

_NO_API = "An Outlast server does not answer like this: check the address."

M = TypeVar("M", bound=BaseModel)


class _Envelope(BaseModel):
    model_config = _USED_LATE

    hint: str | None = None
    allowed_tools: tuple[str, ...] | None = None
    violations: tuple[Violation, ...] | None = None


class _Problem(BaseModel):
    """The parts of a problem document (RFC 9457) that the error carries by name."""

    model_config = _USED_LATE

    title: str | None = None
    detail: str | None = None
    error: _Envelope | None = None
    violations: tuple[Violation, ...] | None = None


def api_error(response: httpx.Response) -> ApiError:
    """The error behind an error response, whose body may or may not be a problem document."""
    document = _document(response.content)
    try:
        problem = _Problem.model_validate(document)
    except ValidationError:
        problem = _Problem()
    envelope = problem.error or _Envelope()
    return _KINDS.get(response.status_code, ApiError)(
        problem.detail or problem.title or f"The server answered {_reason(response.status_code)}.",
        status=response.status_code,
        problem=document,
        violations=envelope.violations or problem.violations or (),
        allowed_tools=envelope.allowed_tools or (),
        hint=envelope.hint or (_NO_API if response.status_code == HTTPStatus.NOT_FOUND and not document else None),
        retry_after_seconds=_retry_after_seconds(response.headers),
    )


def parsed(model: type[M], response: httpx.Response, url: str) -> M:
    """The body as `model`. Raises `UnexpectedAnswer`."""
    try:
        return model.model_validate_json(response.content, extra="allow")
    except ValidationError as error:
        raise UnexpectedAnswer(
            f"{url} did not answer as an Outlast server does.",
            hint="Check the address, and that this version of outlast is as new as the server's.",
        ) from error


def document(response: httpx.Response, url: str) -> dict[str, JsonValue]:
    """The body, a JSON object, as it is. Raises `UnexpectedAnswer`."""
    found = _document(response.content)
    if not found:
        raise UnexpectedAnswer(f"{url} did not answer with a JSON object.")
    return found


def _document(body: bytes) -> dict[str, JsonValue]:
    try:
        return _OBJECT.validate_json(body)
    except ValidationError:
        return {}


def _retry_after_seconds(headers: Mapping[str, str]) -> float | None:
    """The pause in `Retry-After` (RFC 9110, section 10.2.3): a number of seconds, or the time of the next attempt.

    A time is compared with the response's own `Date`, so that it does not matter whether the two clocks agree.
    """
    value = headers.get("retry-after", "").strip()
    if value.isdecimal():
        return float(value)
    until = _http_date(value)
    if until is None:
        return None
    sent = _http_date(headers.get("date", "")) or datetime.now(UTC)
    return max(0.0, (until - sent).total_seconds())


def _http_date(text: str) -> datetime | None:
    try:
        date = parsedate_to_datetime(text)
    except ValueError:
        return None
    return date if date.tzinfo else date.replace(tzinfo=UTC)


def _reason(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


FIRST_PAUSE_SECONDS = 0.5
LONGEST_PAUSE_SECONDS = 10.0
INSTANCE_HEADER = "Outlast-Instance"
"""Header of every answer to `GET /healthz`: the id of the stack that the API belongs to."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """For how long requests are repeated while a server does not answer, or answers 429, 502, 503 or 504.

    Pauses grow from `first_pause_seconds` to ten seconds, and are never shorter than a `Retry-After` of the server.
    Other refusals are never repeated.
    """

    first_contact_seconds: float = 5.0
    """While nothing has ever answered at the address."""
    request_seconds: float = 60.0
    """For a single request."""
    wait_seconds: float = 300.0
    """While waiting for a task, and while following events."""
    first_pause_seconds: float = FIRST_PAUSE_SECONDS


@dataclass(frozen=True, slots=True)
class Waiting:
    """A wait for the server: its reason, and for how many more seconds the client will try; None without a limit."""

    reason: str
    seconds_left: float | None


OnWaiting = Callable[[Waiting | None], None]
"""Called when a request is about to be repeated, and with None when the server answers again."""


def ignore_waiting(waiting: Waiting | None) -> None:
    """Do nothing."""
    del waiting


@dataclass
class Server:
    """The server of one client, and what is known about it."""

    connection: Connection
    policy: RetryPolicy = field(default_factory=RetryPolicy)
    on_waiting: OnWaiting = ignore_waiting
    was_reached: bool = False
    is_verified: bool = False

    @property
    def url(self) -> str:
        """The address, without a slash at the end."""
        return self.connection.url

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        token = self.connection.token
        return {"Accept": "application/json"} | ({"Authorization": f"Bearer {token}"} if token is not None else {})

    @property
    def must_be_verified(self) -> bool:
        """True if the server must first prove that it is the stack of the data directory."""
        return self.connection.instance_id is not None and not self.is_verified

    def verify(self, health: httpx.Response) -> None:
        """Compare the answer to `GET /healthz` with the stack that is meant. Raises `ForeignServer`."""
        if health.headers.get(INSTANCE_HEADER) != self.connection.instance_id:
            raise ForeignServer(
                f"What answers at {self.url} is not the stack that runs on the data directory.",
                url=self.url,
                hint=f"Its API may still be starting: `outlast doctor` says more. To use this server anyway, name it: "
                f"--url {self.url}, or OUTLAST_URL.",
            )
        self.is_verified = True

    def failure(self, error: httpx.TransportError) -> ConnectionFailed:
        """The failure as the client's error. A server that broke the connection off has been reached."""
        is_refused = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
        self.was_reached = self.was_reached or not is_refused
        if not self.was_reached:
            message = f"Nothing answers at {self.url}."
        elif isinstance(error, httpx.TimeoutException) and not is_refused:
            message = f"{self.url} does not answer."
        else:
            message = f"The connection to {self.url} was lost."
        failure = ConnectionFailed(message, url=self.url, hint=self.connection.hint)
        failure.__cause__ = error
        return failure

    def closed_early(self) -> ConnectionFailed:
        """The error for an event stream that ended before its last event."""
        return ConnectionFailed(f"{self.url} closed the event stream.", url=self.url, hint=self.connection.hint)


class Attempts:
    """The attempts at one request, until `limit_seconds` of failures have passed; None is without a limit.

        with attempts:
            return await send(request)
        await sleep(attempts.pause_seconds())

    The block swallows errors after which the request may be repeated; `pause_seconds` raises them again when the time
    is over. `may_have_arrived` tells whether an earlier attempt may have had its effect although no answer came.
    """

    def __init__(self, server: Server, limit_seconds: float | None) -> None:
        self._server = server
        self._limit_seconds = limit_seconds
        self._began: float | None = None
        self._pause_seconds = server.policy.first_pause_seconds
        self.may_have_arrived = False
        self.trouble: OutlastError | None = None
        """The error of the latest attempt."""

    def __enter__(self) -> Self:
        self.trouble = None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> bool:
        if isinstance(error, httpx.TransportError):
            self.trouble = self._server.failure(error)
        elif isinstance(error, RateLimited | Unavailable):
            self._server.was_reached = True
            self.trouble = error
        return self.trouble is not None

    def accept(self, response: httpx.Response) -> httpx.Response:
        """The response, unless it is a refusal. Raises `ApiError`."""
        self._server.was_reached = True
        if response.is_error:
            raise api_error(response)
        if self._began is not None:
            self._server.on_waiting(None)
        self._began = None
        self._pause_seconds = self._server.policy.first_pause_seconds
        return response

    def pause_seconds(self) -> float:
        """The pause before the next attempt. Raises the latest error when failures have lasted too long."""
        error = self.trouble or self._server.closed_early()
        self.may_have_arrived = True
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        asked = error.retry_after_seconds if isinstance(error, ApiError) else None
        pause = max(self._pause_seconds, asked or 0.0)
        limit = self._limit_seconds if self._server.was_reached else self._server.policy.first_contact_seconds
        left = None if limit is None else limit - (now - self._began)
        if left is not None and pause > left:
            raise error
        self._server.on_waiting(Waiting(error.message, left))
        self._pause_seconds = min(self._pause_seconds * 2, LONGEST_PAUSE_SECONDS)
        return pause
