"""Responses of the server: as models, and as errors of the client. Shared by both clients."""

from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import TypeVar

import httpx
from pydantic import BaseModel, ConfigDict, JsonValue, TypeAdapter, ValidationError

from outlast.activities.failures.contracts import Violation
from outlast.client import errors
from outlast.client.errors import ApiError, UnexpectedAnswer

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

_NO_API = "An Outlast server does not answer so: check the address."

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
