"""Server-sent events (WHATWG HTML, section 9.2)."""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Protocol

from fastapi.responses import StreamingResponse
from pydantic import BaseModel, JsonValue

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
        """What happened."""
        ...


def event_stream(events: AsyncIterator[StreamedEvent]) -> StreamingResponse:
    """`events` as a response, which ends when they do."""
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
            event = pending.result()
            if event is None:
                return
            yield _frame(event)
            pending = asyncio.ensure_future(anext(events, None))
    finally:
        pending.cancel()


def _frame(event: StreamedEvent) -> str:
    """`id`, `event` and `data` lines, followed by an empty line (section 9.2.6)."""
    identity = f"id: {event.id}\n" if event.id else ""
    data = _Sent(time=event.time, data=event.data).model_dump_json(exclude_none=True)
    return f"{identity}event: {event.name}\ndata: {data}\n\n"
