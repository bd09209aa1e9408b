"""Event streams that go on after cut connections and restarted servers."""

from collections.abc import Callable

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from outlast.client.contracts.events import Event
from outlast.client.errors import ConnectionFailed, OutlastError, RateLimited, Unavailable
from outlast.client.flows.commands import (
    CloseStream,
    Emitting,
    Flow,
    HttpRequest,
    Item,
    Params,
    TransportFailure,
    read_stream,
)
from outlast.client.flows.server import NO_CONTENT, Attempts, Server, begin_stream
from outlast.client.flows.sse import ServerSentEvent, SseParser

SILENCE_SECONDS = 45.0
"""The API sends a comment every 15 seconds on an event stream; after this long without one the connection is dead."""


class _Payload(BaseModel):
    model_config = ConfigDict(defer_build=True)

    time: str | None = None
    data: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


def follow(
    server: Server,
    path: str,
    *,
    after: str | None,
    is_last: Callable[[Event], bool],
    has_ended: Callable[[], Flow[bool]],
    params: Params = (),
) -> Emitting[Event]:
    """The events after the one with id `after`, each durable one once, to the last one.

    The end of a connection is not the end of the events, since a server that shuts down ends its streams too:
    `has_ended` asks. An `error` without an id that is not retryable is the last event, too. Raises `ConnectionFailed`
    or `Unavailable` when the server stays away for too long.
    """
    attempts = Attempts(server, server.policy.wait_seconds)
    while True:
        try:
            response = yield from begin_stream(server, stream_request(path, after=after, params=params), attempts)
            if response.status == NO_CONTENT:
                return
            parser = SseParser()
            while (chunk := (yield from read_stream())) is not None:
                attempts.succeeded()
                for raw in parser.feed(chunk):
                    event = event_of(raw)
                    after = event.id or after
                    yield Item(event)
                    if is_last(event) or _is_failure(event):
                        return
            yield CloseStream()
            if (yield from has_ended()):
                return
            trouble: OutlastError = closed_early(server)
        except TransportFailure as failure:
            trouble = server.failure(failure)
        except (RateLimited, Unavailable) as busy:
            trouble = busy
        yield CloseStream()
        yield from attempts.pause(trouble)


def _is_failure(event: Event) -> bool:
    """Whether this event says that the stream cannot be resumed, by any client."""
    return event.name == "error" and event.id is None and event.data.get("retryable") is False


def stream_request(path: str, *, after: str | None, params: Params = ()) -> HttpRequest:
    """The request for an event stream after the event with id `after`."""
    resume = {"Last-Event-ID": after} if after else {}
    headers = {"Accept": "text/event-stream", **resume}
    return HttpRequest("GET", path, params=params, headers=headers, timeout_seconds=SILENCE_SECONDS)


def closed_early(server: Server) -> ConnectionFailed:
    """The server ended a stream before its last event."""
    return ConnectionFailed(f"{server.url} closed the event stream.", url=server.url, hint=server.connection.hint)


def event_of(raw: ServerSentEvent) -> Event:
    """The event that the API sent; without data when its data are not the API's."""
    try:
        payload = _Payload.model_validate_json(raw.data)
    except ValidationError:
        payload = _Payload()
    return Event(raw.name, raw.id, payload.time, payload.data)
