"""Server-sent events (WHATWG HTML, section 9.2)."""

import asyncio
import logging
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Protocol

from fastapi.responses import StreamingResponse
from pydantic import BaseModel, JsonValue

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.api.errors import ApiError, tool_error

log = logging.getLogger("outlast.api")
KEEP_ALIVE_SECONDS = 15


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
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(_with_keep_alive(events), media_type="text/event-stream", headers=headers)


async def _with_keep_alive(events: AsyncIterator[StreamedEvent]) -> AsyncIterator[str]:
    """The events as SSE frames, with a comment at intervals so that proxies keep the connection open."""
    yield "retry: 2000\n\n"
    pending = asyncio.ensure_future(anext(events, None))
    try:
        while True:
            done, _ = await asyncio.wait({pending}, timeout=KEEP_ALIVE_SECONDS)
            if not done:
                yield ": keep-alive\n\n"
                continue
            try:
                event = pending.result()
                frame = "" if event is None else _frame(event)
            except Exception as error:  # noqa: BLE001  # a cut connection would not tell a client why
                yield _failure(error)
                return
            if not frame:
                return
            yield frame
            pending = asyncio.ensure_future(anext(events, None))
    finally:
        pending.cancel()


def _failure(error: Exception) -> str:
    """The last event of a stream that cannot go on. It has no id: a client resumes after the one before."""
    if isinstance(error, ApiError):
        envelope = tool_error(error, "")
    else:
        log.error("An event stream has failed.", exc_info=error)
        message = "The event stream has failed on the server, which has logged why."
        envelope = ErrorEnvelope.transient(ErrorCategory.UNKNOWN, "", message, hint="Resume it with Last-Event-ID.")
    sent = _Sent(time=datetime.now(UTC), data=envelope.model_dump(mode="json", exclude_none=True))
    return f"event: error\ndata: {sent.model_dump_json(exclude_none=True)}\n\n"


def _frame(event: StreamedEvent) -> str:
    """`id`, `event` and `data` lines, followed by an empty line (section 9.2.6)."""
    identity = f"id: {event.id}\n" if event.id else ""
    data = _Sent(time=event.time, data=event.data).model_dump_json(exclude_none=True)
    return f"{identity}event: {event.name}\ndata: {data}\n\n"
