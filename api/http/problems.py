"""Errors as RFC 9457 problem documents."""

import math
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from outlast.activities.failures.contracts import Violation
from outlast.api.contracts.problems import MEDIA_TYPE, Problem
from outlast.api.errors import (
    ApiError,
    CallTooLarge,
    InvalidCall,
    OutputRefusal,
    OutputStoreUnavailable,
    PlatformUnavailable,
    TaskDataUnavailable,
    TemporalUnavailable,
    Unauthenticated,
)

RETRY_AFTER_SECONDS = 5


def install_problem_handlers(app: FastAPI) -> None:
    """Answer every refusal of `app` as a problem document."""
    app.add_exception_handler(ApiError, _api_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    app.add_exception_handler(HTTPException, _http_exception)
    app.add_exception_handler(Exception, _defect)


def problem_response(problem: Problem, headers: dict[str, str] | None = None) -> JSONResponse:
    """`problem` as a response."""
    return JSONResponse(
        problem.model_dump(mode="json", exclude_none=True),
        status_code=problem.status,
        headers=headers,
        media_type=MEDIA_TYPE,
    )


def documented_problems(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """How the OpenAPI document describes these refusals."""
    return {status: {"content": {MEDIA_TYPE: {}}} for status in statuses}


async def _api_error(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, ApiError)
    return refusal(request.url.path, error)


def refusal(path: str, error: ApiError) -> JSONResponse:
    """A refusal of the request to `path`."""
    problem = Problem(
        type=_type(error.slug),
        title=error.title,
        status=error.status,
        detail=str(error),
        instance=path,
        error=error.envelope if isinstance(error, InvalidCall | OutputRefusal | CallTooLarge) else None,
    )
    return problem_response(problem, _headers(error))


async def _invalid_request(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)
    violations = [_violation(entry) for entry in error.errors()]
    malformed = any(entry["type"] == "json_invalid" for entry in error.errors())
    problem = Problem(
        type=_type("bad-json" if malformed else "invalid-request"),
        title="The body is not valid JSON" if malformed else "The request does not fit its schema",
        status=400 if malformed else 422,
        detail="; ".join(f"{entry.path or '(body)'}: {entry.message}" for entry in violations),
        instance=request.url.path,
        violations=violations,
    )
    return problem_response(problem)


async def _http_exception(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)
    details = {
        404: "There is nothing at this path; see /docs for what there is.",
        405: "This path knows other methods.",
    }
    problem = Problem(
        type="about:blank",
        title=str(error.detail),
        status=error.status_code,
        detail=details.get(error.status_code, str(error.detail)),
        instance=request.url.path,
    )
    return problem_response(problem, dict(error.headers or {}))


async def _defect(request: Request, _error: Exception) -> JSONResponse:
    """What nobody foresaw. The server's log has the details, the answer has none."""
    problem = Problem(
        type=_type("internal"),
        title="Internal error",
        status=500,
        detail="The server has a defect; its log has the details. Asking again does no harm: nothing is started twice "
        "under the same Idempotency-Key.",
        instance=request.url.path,
    )
    return problem_response(problem)


def body_too_large(path: str, limit_bytes: int) -> JSONResponse:
    """For a request whose body exceeds the limit."""
    problem = Problem(
        type=_type("body-too-large"),
        title="The request body is too large",
        status=413,
        detail=f"At most {limit_bytes} bytes are accepted. Put large inputs into a key-value store and pass its id.",
        instance=path,
    )
    return problem_response(problem, {"Connection": "close"})


def _violation(entry: Any) -> Violation:
    location = entry["loc"][1:] if entry["loc"][0] == "body" else entry["loc"]
    # The framework has a word of its own for broken JSON, and keeps what is wrong with it aside.
    return Violation.at(location, entry["ctx"]["error"] if entry["type"] == "json_invalid" else entry["msg"])


def _headers(error: ApiError) -> dict[str, str]:
    if isinstance(error, TemporalUnavailable | PlatformUnavailable | OutputStoreUnavailable | TaskDataUnavailable):
        return {"Retry-After": str(math.ceil(RETRY_AFTER_SECONDS))}
    if isinstance(error, Unauthenticated):
        return {"WWW-Authenticate": 'Bearer realm="outlast"'}
    return {}


def _type(slug: str) -> str:
    return f"urn:outlast:problem:{slug}"
