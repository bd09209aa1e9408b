"""Errors of the API: an HTTP status and an error type from Apify's list."""

from __future__ import annotations

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

    def response(self) -> Response:
        """The error as an HTTP response."""
        return error_response(self.status, self.error_type, self.message, self.headers)


def error_response(status: int, error_type: str, message: str, headers: dict[str, str] | None = None) -> Response:
    """Apify's error body."""
    return JSONResponse({"error": {"type": error_type, "message": message}}, status_code=status, headers=headers)


def not_found(what: str) -> ApiError:
    """404 for an object that does not exist or belongs to another user."""
    return ApiError(404, "record-not-found", f"{what} was not found")


def invalid_parameter(message: str) -> ApiError:
    """400 for an invalid query parameter."""
    return ApiError(400, "invalid-parameter", message)


async def handle_api_error(_request: Request, error: Exception) -> Response:
    """Starlette's handler for `ApiError`."""
    if not isinstance(error, ApiError):
        raise error
    return error.response()


async def handle_no_route(request: Request, _error: Exception) -> Response:
    """Starlette's handler for a path without a route."""
    return error_response(404, "page-not-found", f"There is no page at {request.url.path}")


async def handle_wrong_method(request: Request, _error: Exception) -> Response:
    """Starlette's handler for a method that the route does not have."""
    return error_response(405, "method-not-allowed", f"{request.method} is not allowed at {request.url.path}")


async def handle_crash(_request: Request, _error: Exception) -> Response:
    """Starlette's handler for a bug in the sandbox itself."""
    return error_response(500, "internal-server-error", "The sandbox failed; its log says why")
