"""Query parameters and request bodies, parsed as the platform parses them."""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator
from typing import Any, Protocol, cast

import brotli  # pyright: ignore[reportMissingTypeStubs]
from starlette.requests import Request
from starlette.responses import Response

from outlast.deploy.local.sandbox.errors import ApiError, invalid_parameter
from outlast.deploy.local.sandbox.formats import JsonObject, line_of, parse_document, parse_iso

MAX_BODY_BYTES = 64 * 1024 * 1024


def integer(request: Request, name: str, default: int, minimum: int = 0, maximum: int | None = None) -> int:
    """An integer from the query. A value above the maximum becomes the maximum, as on the platform."""
    text = request.query_params.get(name)
    if text is None or not text:
        return default
    try:
        value = int(float(text))
    except (ValueError, OverflowError):
        raise invalid_parameter(f"Query parameter '{name}' must be a number") from None
    if value < minimum:
        raise invalid_parameter(f"Query parameter '{name}' must be at least {minimum}")
    return value if maximum is None else min(value, maximum)


def integer_or_none(request: Request, name: str, minimum: int = 0) -> int | None:
    """An integer from the query; None when the parameter is absent."""
    return integer(request, name, 0, minimum) if request.query_params.get(name) else None


def number_or_none(request: Request, name: str) -> float | None:
    """A number from the query, decimals allowed; None when the parameter is absent."""
    text = request.query_params.get(name)
    if not text:
        return None
    try:
        return float(text)
    except ValueError:
        raise invalid_parameter(f"Query parameter '{name}' must be a number") from None


def flag(request: Request, name: str, default: bool = False) -> bool:
    """A boolean from the query: `1` or `true` is true."""
    text = request.query_params.get(name)
    return default if text is None else text.lower() in {"1", "true", "yes"}


def names(request: Request, name: str) -> list[str]:
    """A comma-separated list from the query."""
    return [part.strip() for part in request.query_params.get(name, "").split(",") if part.strip()]


def moment(request: Request, name: str) -> float | None:
    """A date from the query as seconds since the epoch; None when the parameter is absent."""
    text = request.query_params.get(name)
    if not text:
        return None
    try:
        return parse_iso(text)
    except ValueError:
        raise invalid_parameter(f"Query parameter '{name}' must be an ISO 8601 date") from None


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A JSON response."""
    return Response(line_of(value).rstrip(b"\n"), status, headers, "application/json; charset=utf-8")


def data_response(value: object, status: int = 200) -> Response:
    """A JSON response in the platform's `{"data": ...}` envelope."""
    return json_response({"data": value}, status)


def page(items: list[JsonObject], total: int, offset: int, limit: int, desc: bool) -> JsonObject:
    """One page of a list."""
    return {"total": total, "offset": offset, "limit": limit, "desc": desc, "count": len(items), "items": items}


class Decompressor(Protocol):
    """The interface that zlib's and Brotli's decompressors share here."""

    def decompress(self, data: bytes, /) -> bytes:
        """Decompresses the next piece."""
        ...


class _Brotli:
    def __init__(self) -> None:
        self._decompressor: Any = brotli.Decompressor()  # pyright: ignore[reportUnknownMemberType]

    def decompress(self, data: bytes, /) -> bytes:
        return cast("bytes", self._decompressor.process(data))


def _decompressor(encoding: str) -> Decompressor | None:
    match encoding.strip().lower():
        case "" | "identity":
            return None
        case "gzip" | "x-gzip":
            return zlib.decompressobj(16 + zlib.MAX_WBITS)
        case "deflate":
            return zlib.decompressobj()
        case "br":
            return _Brotli()
        case other:
            raise ApiError(415, "unsupported-content-encoding", f"Content-Encoding '{other}' is not supported")


async def body_chunks(request: Request) -> AsyncIterator[bytes]:
    """The body piece by piece, decompressed. Raises `ApiError` 400 for a broken encoding, 415 for an unknown one."""
    decompressor = _decompressor(request.headers.get("content-encoding", ""))
    async for chunk in request.stream():
        if not chunk:
            continue
        if decompressor is None:
            yield chunk
            continue
        try:
            piece = decompressor.decompress(chunk)
        except Exception as error:
            raise ApiError(400, "invalid-request", "The body does not match its Content-Encoding") from error
        if piece:
            yield piece


async def body_bytes(request: Request, limit_bytes: int = MAX_BODY_BYTES) -> bytes:
    """The whole body, decompressed. Raises `ApiError` 413 above the limit."""
    parts: list[bytes] = []
    size = 0
    async for chunk in body_chunks(request):
        size += len(chunk)
        if size > limit_bytes:
            raise ApiError(413, "request-too-large", f"The request is larger than {limit_bytes} bytes")
        parts.append(chunk)
    return b"".join(parts)


async def body_object(request: Request) -> JsonObject:
    """The body as a JSON object; an empty body is an empty object."""
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
