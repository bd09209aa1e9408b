"""Open hand-offs: as a list, and as a stream of changes."""

from collections.abc import Sequence

from pydantic import ValidationError

from outlast.client.contracts.handoffs import HandoffEvent, HandoffList, OpenHandoff
from outlast.client.errors import OutlastError, RateLimited, Unavailable
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
from outlast.client.flows.events import closed_early, event_of, stream_request
from outlast.client.flows.server import Attempts, Server, begin_stream, request
from outlast.client.flows.sse import ServerSentEvent, SseParser
from outlast.client.problems import parsed

_NAMES = {"handoff": "opened", "handoff_closed": "closed"}


def handoffs(server: Server, tools: Sequence[str]) -> Flow[HandoffList]:
    """The caller's open questions."""
    response = yield from request(server, HttpRequest("GET", "/v1/handoffs", params=_only(tools)))
    return parsed(HandoffList, response, server.url)


def follow_handoffs(server: Server, tools: Sequence[str]) -> Emitting[HandoffEvent]:
    """What opens and closes, without an end. Once the server has answered, it is waited for without an end too."""
    attempts = Attempts(server, None)
    params = _only(tools)
    while True:
        try:
            yield from begin_stream(server, stream_request("/v1/handoffs/events", after=None, params=params), attempts)
            yield Item(HandoffEvent("connected"))
            parser = SseParser()
            while (chunk := (yield from read_stream())) is not None:
                for raw in parser.feed(chunk):
                    if (event := _handoff_event(raw)) is not None:
                        yield Item(event)
            trouble: OutlastError = closed_early(server)
        except TransportFailure as failure:
            trouble = server.failure(failure)
        except (RateLimited, Unavailable) as busy:
            trouble = busy
        yield CloseStream()
        yield from attempts.pause(trouble)


def _only(tools: Sequence[str]) -> Params:
    return tuple(("tool", tool) for tool in tools)


def _handoff_event(raw: ServerSentEvent) -> HandoffEvent | None:
    """The event; None for one that only a newer client knows."""
    if raw.name not in _NAMES:
        return None
    try:
        return HandoffEvent(_NAMES[raw.name], OpenHandoff.model_validate(event_of(raw).data))
    except ValidationError:
        return None
