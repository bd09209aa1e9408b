"""From an HTTP error response to what the user is told."""

from http import HTTPStatus
from typing import Any

from pydantic import BaseModel, TypeAdapter, ValidationError

from outlast.api.cli.errors import CliError, ExitCode

_OBJECT = TypeAdapter(dict[str, Any])
_AWAY = (HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.GATEWAY_TIMEOUT)


class _Violation(BaseModel):
    path: str = ""
    message: str = ""


class _Envelope(BaseModel):
    hint: str | None = None
    allowed_tools: list[str] | None = None
    violations: list[_Violation] | None = None


class _Problem(BaseModel):
    """The parts of an RFC 9457 document that a person is shown."""

    title: str | None = None
    detail: str | None = None
    error: _Envelope | None = None
    violations: list[_Violation] | None = None


def error_from_response(status: int, body: bytes) -> CliError:
    """The failure behind an HTTP error status and its body, which may or may not be a problem document."""
    document = _document(body)
    try:
        problem = _Problem.model_validate(document)
    except ValidationError:
        problem = _Problem()
    envelope = problem.error or _Envelope()
    violations = envelope.violations or problem.violations or ()
    lines = tuple(f"{item.path or '(arguments)'}: {item.message}" for item in violations)
    tools = (f"Available tools: {', '.join(envelope.allowed_tools)}",) if envelope.allowed_tools else ()
    return CliError(
        problem.detail or problem.title or f"The server answered {_reason(status)}.",
        exit_code=_exit_code(status),
        hint=envelope.hint or _hint(status),
        lines=lines + tools,
        problem=document or {"status": status},
    )


def _document(body: bytes) -> dict[str, Any]:
    try:
        return _OBJECT.validate_json(body)
    except ValidationError:
        return {}


def _exit_code(status: int) -> ExitCode:
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return ExitCode.UNAUTHENTICATED
    if status in _AWAY:
        return ExitCode.UNREACHABLE
    return ExitCode.SERVER_ERROR if status >= HTTPStatus.INTERNAL_SERVER_ERROR else ExitCode.USAGE


def _hint(status: int) -> str | None:
    if status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
        return "Give an API key of this server, or your Apify token, in OUTLAST_TOKEN or with --token."
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return "`outlast doctor` looks at every part; the server's log says more."
    return None


def _reason(status: int) -> str:
    try:
        return f"{status} {HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)
