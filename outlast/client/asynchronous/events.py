"""Streams of events, rows and hand-offs that continue after cut connections and restarted servers."""

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from outlast.client.asynchronous.concurrency import sleep
from outlast.client.asynchronous.transport import AsyncTransport
from outlast.client.http import HttpRequest, Params, path, query
from outlast.client.retries import Attempts
from outlast.client.sse import (
    NO_CONTENT,
    SseParser,
    event_of,
    handoff_event,
    is_unresumable,
    row_of,
    stream_request,
)
from outlast.contracts.events import Event
from outlast.contracts.handoffs import HandoffEvent
from outlast.contracts.rows import TaskRow
from outlast.contracts.tasks import Task


async def follow(
    transport: AsyncTransport,
    events_path: str,
    *,
    after: str | None,
    is_last: Callable[[Event], bool] = lambda _: False,
    until_task_ends: str | None = None,
    params: Params = (),
) -> AsyncGenerator[Event]:
    """The events after the one with id `after`, each durable one once, to the last one.

    The end of a connection is not the end of the events, since a server that shuts down ends its streams too. The last
    event is the one for which `is_last` is true, or an `error` that cannot be resumed; or the server answers 204; or
    the task `until_task_ends` has ended. Raises `ConnectionFailed` or `Unavailable` when the server stays away for
    too long.
    """
    attempts = transport.attempts(transport.server.policy.wait_seconds)
    while True:
        with attempts:
            async with transport.open(stream_request(events_path, after, params), attempts) as (response, pieces):
                if response.status_code == NO_CONTENT:
                    return
                parser = SseParser()
                async for piece in pieces:
                    for raw in parser.feed(piece):
                        event = event_of(raw)
                        after = event.id or after
                        yield event
                        if is_last(event) or is_unresumable(event):
                            return
            if until_task_ends is not None:
                task = await transport.fetch(Task, HttpRequest("GET", path("tasks", until_task_ends)))
                if task.finished_at is not None:
                    return
        await sleep(attempts.pause_seconds())


async def follow_rows(
    transport: AsyncTransport, task_id: str, *, after: str | None, waits: bool
) -> AsyncGenerator[TaskRow]:
    """The rows of a task after the one with id `after`; with `waits` also those to come, to the last one.

    Raises `ApiError` for rows that cannot be read.
    """
    rows_path, params = path("tasks", task_id, "rows"), () if waits else query(follow=False)
    following = follow(transport, rows_path, after=after, is_last=lambda event: event.name == "end", params=params)
    async with aclosing(following) as events:
        async for event in events:
            if (row := row_of(event)) is not None:
                yield row


async def follow_handoffs(transport: AsyncTransport, tools: Sequence[str]) -> AsyncGenerator[HandoffEvent]:
    """Hand-offs as they open and close, without an end, and without a limit on the wait for a server."""
    attempts = Attempts(transport.server, None)
    request = stream_request(path("handoffs", "events"), None, tuple(("tool", tool) for tool in tools))
    while True:
        with attempts:
            async with transport.open(request, attempts) as (_, pieces):
                yield HandoffEvent("connected")
                parser = SseParser()
                async for piece in pieces:
                    for raw in parser.feed(piece):
                        if (event := handoff_event(raw)) is not None:
                            yield event
        await sleep(attempts.pause_seconds())
