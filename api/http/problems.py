"""Responses to errors: problem documents (RFC 9457)."""

import math
import re
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.routing import Route

from outlast.activities.contracts import Violation
from outlast.api import errors
from outlast.contracts.base import MEDIA_TYPE, Problem

_PASSING = (
    errors.TemporalUnavailable,
    errors.PlatformUnavailable,
    errors.OutputStoreUnavailable,
    errors.TaskDataUnavailable,
    errors.KeyChecksBusy,
    errors.SchemaChecksBusy,
    errors.IssuerUnavailable,
)
RETRY_AFTER_SECONDS = 5
MAX_VIOLATIONS = 50
MAX_TEXT_CHARS = 300
MAX_DETAIL_CHARS = 4_000
MAX_PROBLEM_BYTES = 64_000
"""JSON may write a character as six bytes, so texts and their number alone do not bound it."""


def install_problem_handlers(app: FastAPI) -> None:
    """Let `app` answer expected errors with problem documents. `Exchange.fail` answers the unexpected ones."""
    app.add_exception_handler(errors.ApiError, _api_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_exception)


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    """`problem` as a response, with as many of its violations as 64 KB hold."""
    return JSONResponse(
        _bounded(problem).model_dump(mode="json", exclude_none=True),
        status_code=problem.status,
        headers=headers,
        media_type=MEDIA_TYPE,
    )


def documented_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """The entries of these statuses for a route's `responses`.

    A route that answers 401 to strangers answers 403 to keys without its scope.
    """
    all_statuses = sorted({*statuses, 403} if 401 in statuses else statuses)
    return {status: {"content": {MEDIA_TYPE: {}}} for status in all_statuses}


async def _api_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, errors.ApiError)
    return error_response(request.url.path, error)


def error_response(path: str, error: errors.ApiError) -> JSONResponse:
    """The response to the request to `path` that failed with `error`."""
    problem = Problem(
        type=_type(error.slug),
        title=error.title,
        status=error.status,
        detail=str(error),
        instance=path,
        error=error.envelope
        if isinstance(error, errors.InvalidCall | errors.OutputRefusal | errors.CallTooLarge)
        else None,
    )
    return problem_response(problem, _headers(error))


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    if _body_is_not_json(request, error):
        return _unsupported_media_type(request)
    entries = error.errors()
    violations = [_violation(entry) for entry in entries[:MAX_VIOLATIONS]]
    problem = invalid_request(request.url.path, violations)
    if any(entry["type"] == "json_invalid" for entry in entries):
        malformed = {"type": _type("bad-json"), "title": "The body is not valid JSON", "status": 400}
        problem = problem.model_copy(update=malformed)
    return problem_response(problem)


def invalid_request(path: str, violations: Sequence[Violation]) -> Problem:
    """The problem of a request to `path` that breaks its schema in these places, of which 50 are shown."""
    shown = list(violations[:MAX_VIOLATIONS])
    return Problem(
        type=_type("invalid-request"),
        title="The request does not fit its schema",
        status=422,
        detail=_cut("; ".join(f"{entry.path or '(body)'}: {entry.message}" for entry in shown), MAX_DETAIL_CHARS),
        instance=path,
        violations=shown,
    )


def _body_is_not_json(request: Request, error: RequestValidationError) -> bool:
    """Return True if the request fails because its Content-Type header prevents reading the body as JSON."""
    has_body = "transfer-encoding" in request.headers or request.headers.get("content-length", "0") != "0"
    media_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    is_json = re.fullmatch(r"application/([\w.-]+\+)?json", media_type) is not None
    return has_body and not is_json and any(entry["loc"][0] == "body" for entry in error.errors())


def _unsupported_media_type(request: Request) -> JSONResponse:
    sent = request.headers.get("content-type")
    found = f"The Content-Type header is `{sent[:100]}`." if sent else "The request has no Content-Type header."
    problem = Problem(
        type=_type("unsupported-media-type"),
        title="The body is not declared as JSON",
        status=415,
        detail=f"{found} Send `Content-Type: application/json`; with curl, use `--json` in place of `-d`.",
        instance=request.url.path,
    )
    return problem_response(problem, {"Accept-Post": "application/json"})


async def _http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 405 and (methods := _methods(request)):
        headers["Allow"] = methods
    details = {
        404: f"There is nothing at this path{_similar_path(request)}; /docs lists the endpoints.",
        405: f"This path has no {request.method[:20]}: send {headers.get('Allow', 'another method')}.",
    }
    problem = Problem(
        type="about:blank",
        title=str(error.detail),
        status=error.status_code,
        detail=details.get(error.status_code, str(error.detail)),
        instance=request.url.path,
    )
    return problem_response(problem, headers)


def _methods(request: Request) -> str:
    """Return the methods of all routes of the path: the framework names those of one route."""
    routes = [one for one in request.app.routes if isinstance(one, Route) and one.path_regex.match(request.url.path)]
    return ", ".join(sorted({method for route in routes for method in route.methods or ()} - {"HEAD"}))


def _similar_path(request: Request) -> str:
    paths = {route.path for route in request.app.routes if isinstance(route, Route) and "{" not in route.path}
    near = get_close_matches(request.url.path[:MAX_TEXT_CHARS], paths, n=1, cutoff=0.75)
    return f", but at {near[0]}" if near else ""


def defect_response(path: str) -> JSONResponse:
    """The response to a request that failed unexpectedly. The log has the details; the response has none."""
    problem = Problem(
        type=_type("internal"),
        title="Internal error",
        status=500,
        detail="The server failed unexpectedly; its log has the details. Retrying is safe: one Idempotency-Key never "
        "starts two tasks.",
        instance=path,
    )
    return problem_response(problem)


def body_too_large(path: str, limit_bytes: int) -> JSONResponse:
    """Return the response to a request whose body exceeds the limit."""
    problem = Problem(
        type=_type("body-too-large"),
        title="The request body is too large",
        status=413,
        detail=f"At most {limit_bytes} bytes are accepted. Put large inputs into a key-value store and pass its id.",
        instance=path,
    )
    return problem_response(problem, {"Connection": "close"})


def body_too_complex(path: str, detail: str) -> JSONResponse:
    """Return the response to a request whose body has too many or too deeply nested values."""
    problem = Problem(
        type=_type("body-too-complex"),
        title="The body has too many or too deeply nested values",
        status=422,
        detail=detail,
        instance=path,
    )
    return problem_response(problem)


def _violation(entry: Any) -> Violation:
    location = entry["loc"][1:] if entry["loc"][0] == "body" else entry["loc"]
    if entry["type"] == "json_invalid":  # the framework puts the reason into the context
        reason = entry["ctx"]["error"]
        is_body = not location or isinstance(location[0], int)  # and of a body the position into the place
        position = location[0] + 1 if location and is_body else 1
        found = Violation.at((), f"{reason} at character {position}") if is_body else Violation.at(location, reason)
    elif entry["type"] == "missing" and not location:
        found = Violation.at((), "The request has no body: send JSON")
    else:
        found = Violation.at(location, entry["msg"])
    return Violation(path=_cut(found.path, MAX_TEXT_CHARS), message=_cut(found.message, MAX_TEXT_CHARS))


def _bounded(problem: Problem) -> Problem:
    while len(problem.model_dump_json()) > MAX_PROBLEM_BYTES:
        counts = len(problem.violations or ()), len((problem.error and problem.error.violations) or ())
        problem = _with_fewer_violations(problem)
        if not any(counts):
            return problem.model_copy(update={"detail": _cut(problem.detail, MAX_DETAIL_CHARS), "error": None})
    return problem


def _with_fewer_violations(problem: Problem) -> Problem:
    update: dict[str, Any] = {}
    if problem.violations is not None:
        update["violations"] = problem.violations[: len(problem.violations) // 2]
    if problem.error is not None and problem.error.violations is not None:
        kept = problem.error.violations[: len(problem.error.violations) // 2]
        update["error"] = problem.error.model_copy(update={"violations": kept})
    return problem.model_copy(update=update)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _headers(error: errors.ApiError) -> dict[str, str]:
    if isinstance(error, _PASSING):
        return {"Retry-After": str(math.ceil(RETRY_AFTER_SECONDS))}
    if isinstance(error, errors.TooManyRequests):
        return {"Retry-After": str(max(1, math.ceil(error.retry_after_seconds)))}
    if isinstance(error, errors.Unauthenticated):
        return {"WWW-Authenticate": error.challenge or 'Bearer realm="outlast"'}
    if isinstance(error, errors.ForbiddenScope) and error.challenge:
        return {"WWW-Authenticate": error.challenge}
    return {}


def _type(slug: str) -> str:
    return f"urn:outlast:problem:{slug}"
