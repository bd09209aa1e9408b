"""Streams that stay open: server-sent events (WHATWG HTML, section 9.2), and lines of JSON."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Protocol, TypeVar

from fastapi.responses import StreamingResponse
from pydantic import BaseModel, JsonValue

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.api.errors import ApiError, tool_error

log = logging.getLogger("outlast.api")
Piece = TypeVar("Piece")
KEEP_ALIVE_SECONDS = 15
_SOON_SECONDS = 1.0


class _Sent(BaseModel):
    time: datetime | None
    data: dict[str, JsonValue]


class StreamedEvent(Protocol):
    """An event of a stream. An event without `id` is not sent again to a client that reconnects."""

    @property
    def name(self) -> str:
        """Kind of event."""
        ...

    @property
    def id(self) -> str | None:
        """The event's position in the stream."""
        ...

    @property
    def time(self) -> datetime | None:
        """When it happened."""
        ...

    @property
    def data(self) -> dict[str, JsonValue]:
        """The event."""
        ...


def event_stream(events: AsyncIterator[StreamedEvent]) -> StreamingResponse:
    """`events` as a response, which ends when they do. When they fail, its last event is an `error` that says why."""
    return sse_response(_frame(event) async for event in events)


def sse_response(frames: AsyncGenerator[str | bytes]) -> StreamingResponse:
    """Frames of server-sent events as a response. When they fail, its last event is an `error` that says why."""
    pieces = _with_keep_alive(frames, ": keep-alive\n\n", _failure)
    return _open_response(pieces, "text/event-stream", first="retry: 2000\n\n")


def lines_response(lines: AsyncGenerator[str | bytes], media_type: str) -> StreamingResponse:
    """Lines of JSON as a response that stays open. When they fail it is cut off: no line would tell a client why.

    Meanwhile empty lines keep the connection open, which readers of such lines pass over.
    """
    return _open_response(_with_keep_alive(lines, "\n", None), media_type)


async def begun_soon(pieces: AsyncGenerator[Piece]) -> AsyncGenerator[Piece]:
    """`pieces`. What fails within a second raises here, before the status of a response is sent."""
    first = asyncio.ensure_future(anext(pieces, None))
    await asyncio.wait({first}, timeout=_SOON_SECONDS)
    if first.done():
        first.result()

    async def from_the_first() -> AsyncGenerator[Piece]:
        try:
            piece = await first
            while piece is not None:
                yield piece
                piece = await anext(pieces, None)
        finally:
            first.cancel()
            await pieces.aclose()

    return from_the_first()


def _open_response(pieces: AsyncGenerator[str | bytes], media_type: str, *, first: str = "") -> StreamingResponse:
    async def whole() -> AsyncGenerator[str | bytes]:
        if first:
            yield first
        async with aclosing(pieces):
            async for piece in pieces:
                yield piece

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(whole(), media_type=media_type, headers=headers)


async def _with_keep_alive(
    pieces: AsyncGenerator[str | bytes], keep_alive: str, failure: Callable[[Exception], str] | None
) -> AsyncGenerator[str | bytes]:
    """The pieces, with something that says nothing at intervals, so that proxies keep the connection open."""
    pending = asyncio.ensure_future(anext(pieces, None))
    try:
        while True:
            done, _ = await asyncio.wait({pending}, timeout=KEEP_ALIVE_SECONDS)
            if not done:
                yield keep_alive
                continue
            try:
                piece = pending.result()
            except Exception as error:
                if failure is None:
                    raise
                yield failure(error)
                return
            if piece is None:
                return
            yield piece
            pending = asyncio.ensure_future(anext(pieces, None))
    finally:
        pending.cancel()
        await asyncio.wait({pending})
        await pieces.aclose()


def error_frame(error: ApiError) -> str:
    """The last event of a stream that ends with `error`. It has no id: a client resumes after the event before it."""
    return _error_frame(tool_error(error, ""))


def _failure(error: Exception) -> str:
    if isinstance(error, ApiError):
        return error_frame(error)
    log.error("An event stream has failed.", exc_info=error)
    message = "The event stream has failed on the server, which has logged why."
    return _error_frame(
        ErrorEnvelope.transient(ErrorCategory.UNKNOWN, "", message, hint="Resume it with Last-Event-ID.")
    )


def _error_frame(envelope: ErrorEnvelope) -> str:
    sent = _Sent(time=datetime.now(UTC), data=envelope.model_dump(mode="json", exclude_none=True))
    return f"event: error\ndata: {sent.model_dump_json(exclude_none=True)}\n\n"


def _frame(event: StreamedEvent) -> str:
    """`id`, `event` and `data` lines, followed by an empty line (section 9.2.6)."""
    identity = f"id: {event.id}\n" if event.id else ""
    data = _Sent(time=event.time, data=event.data).model_dump_json(exclude_none=True)
    return f"{identity}event: {event.name}\ndata: {data}\n\n"
