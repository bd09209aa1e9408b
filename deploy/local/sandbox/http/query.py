"""Query parameters and request bodies, parsed as the platform parses them; responses."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import brotli  # pyright: ignore[reportMissingTypeStubs]
from starlette.requests import Request
from starlette.responses import Response

from outlast.deploy.local.sandbox.database import Page
from outlast.deploy.local.sandbox.formats import (
    ApiError,
    JsonObject,
    invalid_parameter,
    line_of,
    parse_document,
    parse_iso,
)

MAX_BODY_BYTES = 64 * 1024 * 1024
MAX_PAGE = 1000
MAX_WAIT_SECONDS = 60


def integer(request: Request, name: str, default: int, minimum: int = 0, maximum: int | None = None) -> int:
    """Return an integer from the query. A value above the maximum becomes the maximum, as on the platform."""
    number = number_or_none(request, name)
    if number is None:
        return default
    try:
        value = int(number)
    except (ValueError, OverflowError):
        raise invalid_parameter(f"Query parameter '{name}' must be a number") from None
    if value < minimum:
        raise invalid_parameter(f"Query parameter '{name}' must be at least {minimum}")
    return value if maximum is None else min(value, maximum)


def integer_or_none(request: Request, name: str, minimum: int = 0) -> int | None:
    """Return an integer from the query, None if the parameter is absent."""
    return integer(request, name, 0, minimum) if request.query_params.get(name) else None


def number_or_none(request: Request, name: str) -> float | None:
    """Return a number from the query, decimals allowed; None if the parameter is absent."""
    text = request.query_params.get(name)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise invalid_parameter(f"Query parameter '{name}' must be a number") from None


def wait_seconds(request: Request) -> int:
    """Return how long the request waits for the end of a run."""
    return integer(request, "waitForFinish", 0, maximum=MAX_WAIT_SECONDS)


def flag(request: Request, name: str, default: bool = False) -> bool:
    """Return a boolean from the query: `1`, `true` and `yes` are true."""
    text = request.query_params.get(name)
    return default if text is None else text.lower() in {"1", "true", "yes"}


def names(request: Request, name: str) -> list[str]:
    """Return a comma-separated list from the query."""
    return [part.strip() for part in request.query_params.get(name, "").split(",") if part.strip()]


def moment(request: Request, name: str) -> float | None:
    """Return a date from the query as seconds since the epoch, None if the parameter is absent."""
    text = request.query_params.get(name)
    if not text:
        return None
    try:
        return parse_iso(text)
    except ValueError:
        raise invalid_parameter(f"Query parameter '{name}' must be an ISO 8601 date") from None


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a JSON response."""
    return Response(line_of(value).rstrip(b"\n"), status, headers, "application/json; charset=utf-8")


def data_response(value: object, status: int = 200) -> Response:
    """Return a JSON response in the platform's `{"data": ...}` envelope."""
    return json_response({"data": value}, status)


def page_of(request: Request) -> Page:
    """Return the page that the query asks for: `offset`, `limit`, `desc`."""
    return Page(integer(request, "offset", 0), integer(request, "limit", MAX_PAGE, 1, MAX_PAGE), flag(request, "desc"))


def page_response(items: list[JsonObject], total: int, page: Page, **more: object) -> Response:
    """Return one page of a list; `more` are fields beside the page's own."""
    return data_response({"total": total, **page._asdict(), "count": len(items), "items": items, **more})


def response_with_page_of(request: Request, items: list[JsonObject]) -> Response:
    """Return the page of all `items` that the query asks for."""
    page = page_of(request)
    ordered = items[::-1] if page.desc else items
    return page_response(ordered[page.offset : page.offset + page.limit], len(items), page)


def _decompress(encoding: str) -> Callable[[bytes], bytes]:
    """Return the function that decompresses the next piece of a body. Raises `ApiError` 415."""
    match encoding.strip().lower():
        case "" | "identity":
            return bytes
        case "gzip" | "x-gzip":
            return zlib.decompressobj(16 + zlib.MAX_WBITS).decompress
        case "deflate":
            return zlib.decompressobj().decompress
        case "br":
            return cast("Any", brotli).Decompressor().process
        case other:
            raise ApiError(415, "unsupported-content-encoding", f"Content-Encoding '{other}' is not supported")


async def body_chunks(request: Request) -> AsyncIterator[bytes]:
    """Yield the body piece by piece, decompressed. Raises `ApiError` 400 or 415 for its encoding."""
    decompress = _decompress(request.headers.get("content-encoding", ""))
    async for chunk in request.stream():
        if not chunk:
            continue
        try:
            piece = decompress(chunk)
        except Exception as error:
            raise ApiError(400, "invalid-request", "The body does not match its Content-Encoding") from error
        if piece:
            yield piece


async def body_bytes(request: Request, limit_bytes: int = MAX_BODY_BYTES) -> bytes:
    """Return the whole body, decompressed. Raises `ApiError` 413 above the limit."""
    body = bytearray()
    async for chunk in body_chunks(request):
        body += chunk
        if len(body) > limit_bytes:
            raise ApiError(413, "request-too-large", f"The request is larger than {limit_bytes} bytes")
    return bytes(body)


async def body_object(request: Request) -> JsonObject:
    """Return the body as a JSON object; an empty body is an empty object."""
    body = await body_bytes(request)
    if not body:
        return {}
    try:
        value: object = parse_document(body)
    except (ValueError, RecursionError) as error:
        raise ApiError(400, "invalid-request", f"The body is not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise ApiError(400, "invalid-request", "The body must be a JSON object")
    return cast("JsonObject", value)
