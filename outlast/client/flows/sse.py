"""Server-sent events, as the HTML standard parses them (WHATWG HTML, section 9.2.6)."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

# Nothing else ends a line: JSON may contain U+2028, at which `str.splitlines` would break the line.
_LINE_END = re.compile(r"\r\n|\n|\r")


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
