# Generated from outlast/client/asynchronous by `make client`: edit it there.
"""Streams of events, rows and hand-offs that continue after cut connections and restarted servers."""

from collections.abc import Callable, Generator, Sequence
from contextlib import closing

from outlast.client.blocking.concurrency import sleep
from outlast.client.blocking.transport import Transport
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


def follow(
    transport: Transport,
    events_path: str,
    *,
    after: str | None,
    is_last: Callable[[Event], bool] = lambda _: False,
    until_task_ends: str | None = None,
    params: Params = (),
) -> Generator[Event]:
    """The events after the one with id `after`, each durable one once, to the last one.

    The end of a connection is not the end of the events, since a server that shuts down ends its streams too. The last
    event is the one for which `is_last` is true, or an `error` that cannot be resumed; or the server answers 204; or
    the task `until_task_ends` has ended. Raises `ConnectionFailed` or `Unavailable` when the server stays away for
    too long.
    """
    attempts = transport.attempts(transport.server.policy.wait_seconds)
    while True:
        with attempts:
            with transport.open(stream_request(events_path, after, params), attempts) as (response, pieces):
                if response.status_code == NO_CONTENT:
                    return
                parser = SseParser()
                for piece in pieces:
                    for raw in parser.feed(piece):
                        event = event_of(raw)
                        after = event.id or after
                        yield event
                        if is_last(event) or is_unresumable(event):
                            return
            if until_task_ends is not None:
                task = transport.fetch(Task, HttpRequest("GET", path("tasks", until_task_ends)))
                if task.finished_at is not None:
                    return
        sleep(attempts.pause_seconds())


def follow_rows(transport: Transport, task_id: str, *, after: str | None, waits: bool) -> Generator[TaskRow]:
    """The rows of a task after the one with id `after`; with `waits` also those to come, to the last one.

    Raises `ApiError` for rows that cannot be read.
    """
    rows_path, params = path("tasks", task_id, "rows"), () if waits else query(follow=False)
    following = follow(transport, rows_path, after=after, is_last=lambda event: event.name == "end", params=params)
    with closing(following) as events:
        for event in events:
            if (row := row_of(event)) is not None:
                yield row


def follow_handoffs(transport: Transport, tools: Sequence[str]) -> Generator[HandoffEvent]:
    """Hand-offs as they open and close, without an end, and without a limit on the wait for a server."""
    attempts = Attempts(transport.server, None)
    request = stream_request(path("handoffs", "events"), None, tuple(("tool", tool) for tool in tools))
    while True:
        with attempts, transport.open(request, attempts) as (_, pieces):
            yield HandoffEvent("connected")
            parser = SseParser()
            for piece in pieces:
                for raw in parser.feed(piece):
                    if (event := handoff_event(raw)) is not None:
                        yield event
        sleep(attempts.pause_seconds())
