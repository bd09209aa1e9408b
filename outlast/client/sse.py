"""Event streams: server-sent events (WHATWG HTML, section 9.2.6), and their meaning in the API."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass
from http import HTTPStatus

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError

from outlast.client.errors import ApiError, Conflict, InvalidRequest, NotFound, Unauthenticated
from outlast.client.http import HttpRequest, Params
from outlast.contracts.events import Event, TaskRow
from outlast.contracts.handoffs import HandoffEvent, OpenHandoff
from outlast.contracts.tasks import ToolError

SILENCE_SECONDS = 45.0
"""The API sends a comment every 15 seconds on an event stream; after this long without one the connection is dead."""
NO_CONTENT = HTTPStatus.NO_CONTENT
"""Status of the answer to a request that resumes a stream whose last event has been read."""
_REFUSALS: dict[str, tuple[type[ApiError], HTTPStatus]] = {
    "conflict": (Conflict, HTTPStatus.CONFLICT),
    "authentication": (Unauthenticated, HTTPStatus.UNAUTHORIZED),
    "not_found": (NotFound, HTTPStatus.GONE),
}
_HANDOFFS = {"handoff": "opened", "handoff_closed": "closed"}
# Nothing else ends a line: JSON may contain U+2028, at which `str.splitlines` would break the line.
_LINE_END = re.compile(r"\r\n|\n|\r")


_OF_ANY_ERROR = {"tool": "", "category": "unknown", "retryable": False}
"""Fields of an error that an older server may leave out."""


@dataclass(frozen=True, slots=True)
class ServerSentEvent:
    """One event; `id` is None when the event has none."""

    name: str
    data: str
    id: str | None = None


class SseParser:
    """Takes the bytes of a stream, and gives the events that they complete.

    It ignores the `retry` field: `RetryPolicy` decides about the pauses before a new connection.
    """

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")(errors="replace")
        self._rest = ""
        self._fields: dict[str, str] = {}
        self._data: list[str] = []

    def feed(self, chunk: bytes) -> Iterator[ServerSentEvent]:
        """Give the events that end in `chunk`."""
        text = self._rest + self._decoder.decode(chunk)
        ends_in_doubt = text.endswith("\r")  # the \n of a \r\n may come with the next chunk
        lines = _LINE_END.split(text[:-1] if ends_in_doubt else text)
        self._rest = lines.pop() + ("\r" if ends_in_doubt else "")
        for line in lines:
            event = self._take(line)
            if event is not None:
                yield event

    def _take(self, line: str) -> ServerSentEvent | None:
        if not line:
            return self._dispatch()
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name in ("id", "event"):
            self._fields[name] = value
        return None

    def _dispatch(self) -> ServerSentEvent | None:
        fields, data = self._fields, self._data
        self._fields, self._data = {}, []
        if not data:
            return None
        return ServerSentEvent(name=fields.get("event") or "message", data="\n".join(data), id=fields.get("id"))


class _Payload(BaseModel):
    model_config = ConfigDict(defer_build=True)

    time: str | None = None
    data: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])


def stream_request(path: str, after: str | None, params: Params = ()) -> HttpRequest:
    """The request for an event stream after the event with id `after`."""
    resume = {"Last-Event-ID": after} if after else {}
    headers = {"Accept": "text/event-stream", **resume}
    return HttpRequest("GET", path, params=params, headers=headers, timeout_seconds=SILENCE_SECONDS)


def event_of(raw: ServerSentEvent) -> Event:
    """The event that the API sent; without data when its data are not the API's."""
    try:
        payload = _Payload.model_validate_json(raw.data)
    except ValidationError:
        payload = _Payload()
    return Event(raw.name, raw.id, payload.time, payload.data)


def is_unresumable(event: Event) -> bool:
    """True if no client can resume the stream after this event."""
    return event.name == "error" and event.id is None and event.data.get("retryable") is False


def row_of(event: Event) -> TaskRow | None:
    """The row that an event carries, if any. Raises `ApiError` for rows that cannot be read."""
    if event.name == "error" and event.data.get("retryable") is False:
        error = ToolError.model_validate(_OF_ANY_ERROR | event.data, extra="allow")
        kind, status = _REFUSALS.get(error.category, (InvalidRequest, HTTPStatus.UNPROCESSABLE_ENTITY))
        raise kind(error.message, status=status, hint=error.hint)
    return TaskRow(event.id, event.data) if event.name == "row" and event.id is not None else None


def handoff_event(raw: ServerSentEvent) -> HandoffEvent | None:
    """The event about a hand-off; None for one that only a newer client knows."""
    if raw.name not in _HANDOFFS:
        return None
    try:
        return HandoffEvent(_HANDOFFS[raw.name], OpenHandoff.model_validate(event_of(raw).data, extra="allow"))
    except ValidationError:
        return None
