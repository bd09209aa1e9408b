"""The events of a model's streamed answer, read leniently, and a connection that is closed completely when a call ends.
The SDKs send the request; their own readers are not used, since they fail on what many servers that imitate a provider
send: texts with half a character, lines that are no event, whole answers where a stream was requested.
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator
from contextlib import suppress
from types import TracebackType
from typing import Self, cast

import httpx2

from outlast.activities.contracts import JsonObject
from outlast.activities.unicode_text import valid_text

_SETTLED_SECONDS = 5.0
"""The time to wait for each further event after the answer is complete: token counts may follow it."""
_DRAIN_SECONDS = 0.1
"""The time to wait for the end of a response after its last event, so that its connection can be reused."""
_LINE_END = re.compile(rb"\r\n|\r|\n")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_DONE = "[DONE]"
# Bytes that are not UTF-8 are decoded as these (`surrogateescape`). After a first half they are its second half.
_BYTES = re.compile("(?<![\ud800-\udbff])[\udc80-\udcff]+")
_BEGINNING = re.compile("(?:[\ud800-\udbff]|(?<![\ud800-\udbff])[\udcc2-\udcf4][\udc80-\udcbf]{0,2})\\Z")


class StreamEvents:
    """The JSON objects of a stream, in their order. When the `async with` block ends, the connection and all generators
    are closed: closing the response alone ends none of the chained generators, and the garbage collector would close
    them at any later time.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self._chunks: AsyncIterator[bytes] = response.aiter_bytes()
        self._is_whole_answer: bool | None = None if "json" in response.headers.get("content-type", "") else False
        self._buffer, self._skips_line_feed, self._has_ended = b"", False, False
        self._lines = deque[bytes]()
        self._event, self._data = "", ""
        self._is_settled = False
        self.is_done = False
        """The server has marked the end of its answer."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection and end the generators. What they raise then is of no interest."""
        try:
            if kind is None and (self.is_done or self._is_settled):
                with suppress(TimeoutError, httpx2.HTTPError, StopAsyncIteration):
                    async with asyncio.timeout(_DRAIN_SECONDS):
                        while True:
                            await anext(self._chunks)
        finally:
            try:
                await self._response.aclose()
            finally:
                with suppress(Exception, StopAsyncIteration):
                    while True:
                        await anext(self._chunks)

    def __aiter__(self) -> Self:
        """`self`: a generator here would be one more to close."""
        return self

    async def __anext__(self) -> JsonObject:
        """Return the next event. Raises `json.JSONDecodeError` for one that was cut off, and what httpx2 raises."""
        if not self._is_settled:
            return await self._next()
        try:
            async with asyncio.timeout(_SETTLED_SECONDS):
                return await self._next()
        except (TimeoutError, httpx2.HTTPError, json.JSONDecodeError):
            raise StopAsyncIteration from None

    def settle(self) -> None:
        """The answer is whole: from now on nothing that is late or fails is an error."""
        self._is_settled = True

    async def _next(self) -> JsonObject:
        while not self.is_done:
            while self._lines:
                event = self._read_line(self._lines.popleft().decode(errors="surrogateescape"))
                if event is not None:
                    return event
                if self.is_done:
                    raise StopAsyncIteration
            if self._has_ended:
                break
            await self._read_chunk()
        raise StopAsyncIteration

    async def _read_chunk(self) -> None:
        try:
            chunk = await anext(self._chunks)
        except StopAsyncIteration:
            self._end()
            return
        if self._skips_line_feed and chunk.startswith(b"\n"):
            chunk = chunk[1:]
        self._buffer = (self._buffer + chunk).removeprefix(_BYTE_ORDER_MARK)
        if self._is_whole_answer is None and self._buffer.strip():
            self._is_whole_answer = self._buffer.lstrip().startswith(b"{")
        if self._is_whole_answer is False:
            self._skips_line_feed = self._buffer.endswith(b"\r")
            *lines, self._buffer = _LINE_END.split(self._buffer)
            self._lines.extend(lines)

    def _end(self) -> None:
        """The response has ended: the rest is its last line, or a whole answer that the server did not stream."""
        self._has_ended = True
        rest, self._buffer = self._buffer, b""
        if self._is_whole_answer:
            with suppress(ValueError):
                json.loads(rest)
                self._lines.extend((b" ".join(_LINE_END.split(rest)), b"data: [DONE]"))
                return
        self._lines.extend((*_LINE_END.split(rest), b""))

    def _read_line(self, line: str) -> JsonObject | None:
        """The event that this line completes. Each line of data that is an object is one, whatever stands around it."""
        if not line.strip():
            return self._blank_line()
        name, _, value = ("data", "", line) if line.startswith("{") else line.partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data" if value.strip() == _DONE:
                self.is_done = True
            case "data":
                self._data += value
                return self._object()
            case "event":
                self._event = value.strip()
            case "error":
                return {"error": _error_value(value)}
            case _:
                pass
        return None

    def _object(self) -> JsonObject | None:
        try:
            found: object = json.loads(self._data)
        except ValueError:
            self._data += "\n"
            return None
        self._data = ""
        if not isinstance(found, dict):
            return None
        event = cast(JsonObject, found)
        return {"error": event} if self._event == "error" and not event.get("error") else event

    def _blank_line(self) -> JsonObject | None:
        """Handle the end of an event. Data that is not JSON is skipped, unless it is the beginning of an object."""
        left, name = self._data.strip(), self._event
        self._data = self._event = ""
        if name == "error" and left:
            return {"error": left}
        if left.startswith("{"):
            raise json.JSONDecodeError("an event is no whole JSON object", left[:200], len(left[:200]))
        return None


class StreamedText:
    """A text that comes in pieces, as valid Unicode. A character that is cut between two of them is joined. Beside
    halves (`activities.unicode_text.TextPieces`), bytes of a character that `StreamEvents` could not decode.
    """

    def __init__(self) -> None:
        self._held = ""

    def feed(self, piece: str) -> str:
        """The text that can be passed on after `piece`; a part of a character is held back until the next piece."""
        text = self._held + piece
        cut = _BEGINNING.search(text)
        self._held = cut[0] if cut else ""
        return _valid(text[: len(text) - len(self._held)])

    def end(self) -> str:
        """Return the rest at the end of the text: U+FFFD for an incomplete character."""
        left, self._held = self._held, ""
        return _valid(left)


def _valid(text: str) -> str:
    return valid_text(_BYTES.sub(_decoded, text))


def _decoded(found: re.Match[str]) -> str:
    return found[0].encode(errors="surrogateescape").decode(errors="replace")


def _error_value(value: str) -> JsonObject | str:
    try:
        found: object = json.loads(value)
    except ValueError:
        return value
    return cast(JsonObject, found) if isinstance(found, dict) else value
