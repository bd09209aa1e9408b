"""JSON, times, identifiers and errors as the platform writes them. Strings of JavaScript may hold lone surrogates."""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import string
import time
from datetime import UTC, datetime
from typing import Any

import orjson
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

JsonObject = dict[str, Any]
"""JSON object with Apify's fields."""
_MANY_DIGITS = re.compile(rb"\d{19}")
"""Matches numbers beyond 64 bits, which orjson reads as floats."""
_ALPHABET = string.ascii_letters + string.digits
_ID_LENGTH = 17


def parse(text: bytes) -> Any:
    """Parse JSON and keep unpaired surrogates, as JavaScript does, and whole numbers of any size.

    Raises `ValueError`.
    """
    try:
        return json.loads(text, parse_constant=_refuse) if _MANY_DIGITS.search(text) else orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text, parse_constant=_refuse)


def parse_document(text: bytes) -> Any:
    """Parse JSON with U+FFFD for each unpaired surrogate, as the platform's database does. Raises `ValueError`."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        written = json.dumps(parse(text), ensure_ascii=False)
        return orjson.loads(written.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace"))


def line_of(value: object) -> bytes:
    """Return `value` as one line of JSON with its line end; unpaired surrogates are escaped (ECMAScript 2019)."""
    try:
        return orjson.dumps(value, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:
        return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def now() -> float:
    """Return the seconds since the epoch, truncated to milliseconds so that the API shows the stored value."""
    return time.time_ns() // 1_000_000 / 1000


def iso(timestamp: float) -> str:
    """Format as ISO 8601 in UTC with milliseconds and `Z`, the only form that the platform writes."""
    seconds, milliseconds = divmod(round(timestamp * 1000), 1000)
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{milliseconds:03d}Z"


def iso_or_none(timestamp: float | None) -> str | None:
    """Format as `iso` does; None for None."""
    return None if timestamp is None else iso(timestamp)


def parse_iso(text: str) -> float:
    """Invert `iso`; other ISO 8601 forms are accepted too. Raises `ValueError`."""
    moment = datetime.fromisoformat(text.replace("Z", "+00:00").replace(" ", "+"))
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()


def new_id() -> str:
    """Return a random id of 17 letters and digits, as on the platform."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_ID_LENGTH))


def derived_id(*parts: str) -> str:
    """Return an ID in the form of `new_id` that is derived from `parts`: the same parts give the same ID."""
    number = int.from_bytes(hashlib.sha256("\0".join(parts).encode()).digest())
    digits: list[str] = []
    for _ in range(_ID_LENGTH):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(digits)


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


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
