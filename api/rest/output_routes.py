"""`/v1/outputs`: stored outputs, whole or in part, streamed."""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Annotated

from fastapi import APIRouter, Header, Path, Query, Response
from fastapi.responses import StreamingResponse

from outlast.activities.contracts import Caller
from outlast.activities.outputs.contracts import StoredOutput
from outlast.activities.outputs.reader import OutputReader
from outlast.api.http.dependencies import CallerDep, CancellerDep, KnownParametersRoute, ServicesDep
from outlast.api.http.event_stream import ClosingResponse
from outlast.api.http.problems import documented_problems
from outlast.api.outputs import StoredOutputs, begun
from outlast.api.services import Services
from outlast.contracts.outputs import OutputSelection

router = APIRouter(prefix="/v1/outputs", tags=["outputs"], route_class=KnownParametersRoute)

ROWS_MEDIA_TYPE = "application/x-ndjson"
_SUFFIXES = {"rows": "jsonl", "json": "json", "text": "txt", "binary": "bin"}

LocatorPath = Annotated[str, Path(min_length=1, max_length=200, description="The locator, exactly as you received it.")]
_REFUSALS = documented_problems(400, 401, 403, 404, 410, 422, 500, 503)


@router.get(
    "/{locator}",
    response_class=StreamingResponse,
    responses={
        200: {"description": "The whole content, or the rows that were selected, as lines of JSON (x-ndjson)."},
        206: {"description": "The bytes of the `Range` header."},
        **documented_problems(416),
        **_REFUSALS,
    },
)
async def get_output(
    locator: LocatorPath,
    services: ServicesDep,
    caller: CallerDep,
    selection: Annotated[OutputSelection, Query()],
    content_range: Annotated[
        str | None, Header(alias="Range", description="One range of the content: `bytes=0-1023` (RFC 9110, 14.2).")
    ] = None,
) -> Response:
    """A stored output, whole or in part.

    Every byte is checked against the stored digest, and only the frames with the requested part are read. `ETag` is the
    content's digest.
    """
    outputs = services.outputs
    reader = await outputs.open(caller, locator)
    if not selection.selects:
        return await _content(outputs, reader, content_range)
    pieces = outputs.selected(reader, selection)
    if selection.evaluates:
        pieces = _within_share(services, caller, pieces)
    return await _streamed(reader, pieces, ROWS_MEDIA_TYPE)


@router.get("/{locator}/info", responses=_REFUSALS)
async def describe_output(locator: LocatorPath, services: ServicesDep, caller: CallerDep) -> StoredOutput:
    """Describe a stored output: kind, sizes, count, digest, fields, summary, and when it expires."""
    return await services.outputs.describe(caller, locator)


@router.delete("/{locator}", status_code=204, responses=_REFUSALS)
async def delete_output(locator: LocatorPath, services: ServicesDep, caller: CancellerDep) -> None:
    """Remove a stored output before it expires. Later requests for it answer that it was deleted."""
    await services.outputs.delete(caller, locator)


async def _within_share(services: Services, caller: Caller, pieces: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """`pieces`, which need their own process, counted as one of the caller's concurrent queries."""
    with services.limits.slot(caller.id, "concurrent_queries"):
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece
                del piece


async def _content(outputs: StoredOutputs, reader: OutputReader, content_range: str | None) -> Response:
    size = reader.manifest.raw_size
    span = _range(content_range, size) if content_range else None
    start, end = span or (0, size)
    if span is not None and start >= end:
        return Response(status_code=416, headers={"Content-Range": f"bytes */{size}"})
    headers = {"Content-Length": str(end - start), "Accept-Ranges": "bytes"}
    if span is not None:
        headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    pieces, status = outputs.content(reader, start, end), 200 if span is None else 206
    return await _streamed(reader, pieces, reader.manifest.content_type, headers, status=status)


async def _streamed(
    reader: OutputReader,
    pieces: AsyncGenerator[bytes],
    media_type: str,
    headers: dict[str, str] | None = None,
    *,
    status: int = 200,
) -> StreamingResponse:
    manifest = reader.manifest
    all_headers = {
        "ETag": f'"{manifest.digest}"',
        "Cache-Control": "private, no-store",
        # A browser must not run an output as a page of this server.
        "Content-Disposition": f'attachment; filename="{manifest.locator}.{_SUFFIXES[manifest.kind]}"',
        "X-Content-Type-Options": "nosniff",
        **(headers or {}),
    }
    return ClosingResponse(await begun(pieces), status_code=status, media_type=media_type, headers=all_headers)


def _range(header: str, size: int) -> tuple[int, int] | None:
    """First and last-plus-one byte of a range; None for a header to be ignored (RFC 9110), such as several ranges."""
    match = re.fullmatch(r"bytes=([0-9]*)-([0-9]*)", header.strip())
    if match is None or match.groups() == ("", ""):
        return None
    first, last = match.groups()
    if not first:
        return size - _position(last, size), size
    return _position(first, size), min(size, _position(last, size) + 1) if last else size


def _position(digits: str, size: int) -> int:
    """The number, at most `size`. It may have more digits than Python converts."""
    digits = digits.lstrip("0") or "0"
    return size if len(digits) > len(str(size)) else min(size, int(digits))
