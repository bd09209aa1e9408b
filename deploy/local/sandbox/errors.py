"""Errors of the API: an HTTP status and an error type from Apify's list."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response


class ApiError(Exception):
    """An error response, with the body `{"error": {"type", "message"}}`."""

    def __init__(self, status: int, error_type: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.error_type = error_type
        self.message = message
        self.headers = headers


def error_response(status: int, error_type: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """Return a response with Apify's error body."""
    return JSONResponse({"error": {"type": error_type, "message": message}}, status_code=status, headers=headers)


def not_found(what: str) -> ApiError:
    """Make the error for an object that does not exist or belongs to another user (404)."""
    return ApiError(404, "record-not-found", f"{what} was not found")


def invalid_parameter(message: str) -> ApiError:
    """Make the error for an invalid query parameter (400)."""
    return ApiError(400, "invalid-parameter", message)


async def _on_api_error(_request: Request, error: ApiError) -> Response:
    return error_response(error.status, error.error_type, error.message, error.headers)


async def _on_missing_route(request: Request, _error: Exception) -> Response:
    return error_response(404, "page-not-found", f"There is no page at {request.url.path}")


async def _on_wrong_method(request: Request, _error: Exception) -> Response:
    return error_response(405, "method-not-allowed", f"{request.method} is not allowed at {request.url.path}")


async def _on_defect(_request: Request, _error: Exception) -> Response:
    return error_response(500, "internal-server-error", "The sandbox failed; see its log for the reason")


EXCEPTION_HANDLERS: dict[Any, Any] = {
    ApiError: _on_api_error,
    404: _on_missing_route,
    405: _on_wrong_method,
    500: _on_defect,
}
"""Starlette's handlers: for errors of the API, unknown paths and methods, and defects of the sandbox."""
