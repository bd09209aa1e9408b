"""Streams that stay open: server-sent events (WHATWG HTML, section 9.2), and lines of JSON."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime
from typing import Protocol, TypeVar, cast

from fastapi.responses import StreamingResponse
from pydantic import BaseModel, JsonValue
from starlette.types import Receive, Scope, Send

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.api.errors import ApiError, tool_error

log = logging.getLogger("outlast.api")
Piece = TypeVar("Piece")
IN_ROOM_STATE = "outlast_in_room"
"""Name in the scope of a request whose response is in room already that was taken for it."""
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


class ClosingResponse(StreamingResponse):
    """A response whose pieces are in room that was taken for them (see `unread_bytes`), until the next one is read.

    However it ends, it closes what gives the pieces: others wait for the room.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it until its end, or until the client leaves.

        The task group of `StreamingResponse` leaves a cycle behind, with all that was read, for the garbage collector.
        """
        scope[IN_ROOM_STATE] = True
        sending = asyncio.create_task(self._send_and_close(send))
        leaving = asyncio.create_task(self.listen_for_disconnect(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                sending.result()
        finally:
            sending.cancel()
            leaving.cancel()
            await asyncio.wait({sending, leaving})

    async def stream_response(self, send: Send) -> None:
        """Send pieces as the base class does, without holding one while waiting for the next."""
        await send({"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers})
        async for piece in self.body_iterator:
            body = piece.encode(self.charset) if isinstance(piece, str) else piece
            del piece
            await send({"type": "http.response.body", "body": body, "more_body": True})
            del body
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _send_and_close(self, send: Send) -> None:
        try:
            await self.stream_response(send)
        finally:
            pieces: object = self.body_iterator
            if isinstance(pieces, AsyncGenerator):
                await cast(AsyncGenerator[object], pieces).aclose()


def event_stream(events: AsyncGenerator[StreamedEvent]) -> StreamingResponse:
    """`events` as a response, which ends when they do. When they fail, its last event is an `error` that says why."""
    return sse_response(_frames(events))


async def _frames(events: AsyncGenerator[StreamedEvent]) -> AsyncGenerator[str]:
    async with aclosing(events):
        async for event in events:
            frame = _frame(event)
            del event
            yield frame
            del frame


def sse_response(frames: AsyncGenerator[str | bytes]) -> StreamingResponse:
    """Frames of server-sent events as a response. When they fail, its last event is an `error` that says why."""
    pieces = _with_keep_alive(frames, ": keep-alive\n\n", _failure, first="retry: 2000\n\n")
    return _open_response(pieces, "text/event-stream")


def lines_response(lines: AsyncGenerator[str | bytes], media_type: str) -> StreamingResponse:
    """Lines of JSON as a response that stays open. When they fail it is cut off: no line would tell a client why.

    Meanwhile empty lines keep the connection open, which readers of such lines pass over.
    """
    return _open_response(_with_keep_alive(lines, "\n", None), media_type)


async def begun_soon(pieces: AsyncGenerator[Piece]) -> AsyncGenerator[Piece]:
    """`pieces`. What fails within a second raises here, before the status of a response is sent."""
    coming = [asyncio.ensure_future(anext(pieces, None))]
    await asyncio.wait(coming, timeout=_SOON_SECONDS)
    if coming[0].done():
        coming[0].result()

    async def from_the_first() -> AsyncGenerator[Piece]:
        try:
            piece = await coming[0]
            coming.pop()  # nothing holds the first piece while the client reads
            while piece is not None:
                yield piece
                del piece
                piece = await anext(pieces, None)
        finally:
            for first in coming:
                first.cancel()
            await pieces.aclose()

    return from_the_first()


def _open_response(pieces: AsyncGenerator[str | bytes], media_type: str) -> StreamingResponse:
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return ClosingResponse(pieces, media_type=media_type, headers=headers)


async def _with_keep_alive(
    pieces: AsyncGenerator[str | bytes], keep_alive: str, failure: Callable[[Exception], str] | None, *, first: str = ""
) -> AsyncGenerator[str | bytes]:
    """The pieces, with something that says nothing at intervals, so that proxies keep the connection open."""
    pending = asyncio.ensure_future(anext(pieces, None))
    try:
        if first:
            yield first
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
            del piece
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
