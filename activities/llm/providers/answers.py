"""The interface of model providers, and answers of models: streamed events, read leniently; tool calls, reasoning and
token counts. A stream's connection is closed completely when a call ends.
"""

import asyncio
import json
import re
from collections import deque
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Protocol, Self, cast

import httpx2
from pydantic import JsonValue
from pydantic_core import from_json

from outlast.activities.contracts import JsonObject
from outlast.activities.conversations.contracts import AnswerPart, ReasoningPart, TextPart, ToolCallPart
from outlast.activities.json_numbers import number_flaws
from outlast.activities.llm.contracts import CallModelInput, ModelStep
from outlast.activities.unicode_text import valid_json_text, valid_text


class Listener(Protocol):
    """Receives the answer of a model piece by piece."""

    def text(self, piece: str) -> None:
        """A piece of text; the joined pieces are `ModelStep.text`."""

    def arguments(self, call_id: str, tool: str, piece: str) -> None:
        """A piece of a call's arguments; the joined pieces of a call are its `raw_arguments`."""


class Provider(Protocol):
    """One provider, with its key and its base URL."""

    async def call(self, request: CallModelInput, listener: Listener) -> ModelStep:
        """Call the model once. A cancellation closes the connection. Raises `ProviderError`; never retries."""
        ...

    async def close(self) -> None:
        """Close the open connections."""


MAX_ARGUMENT_CHARS = 256 * 1024
"""Longer arguments of a model are kept as text only: a turn's workflow would decode and check them."""
_MOST_TOKENS = 10**12
_HALF = "\\ud"
_NO_ARGUMENTS = frozenset({"", "null", "[]", "{}", '""'})
"""Forms in which programs write that there are no arguments: a nil map of Go, an empty array of PHP."""


def tool_call(call_id: str, name: str, raw_arguments: str) -> ToolCallPart:
    """The call. Empty arguments become `{}`; arguments that are not a JSON object or too long are kept as text only."""
    raw = valid_text(raw_arguments)
    return ToolCallPart(id=valid_text(call_id), name=valid_text(name), arguments=read_arguments(raw), raw_arguments=raw)


def call_id(given: object, used: Collection[str], step: int) -> str:
    """Return the id that assigns a result to its call: `given`, unless a server has omitted it or used it before."""
    own = valid_text(given) if isinstance(given, str) else "" if given is None else str(given)
    if own and own not in used:
        return own
    number = len(used)
    while f"call_{step}_{number}" in used:
        number += 1
    return f"call_{step}_{number}"


def text_of(value: object) -> str:
    """`value`, if it is a text; else an empty one."""
    return value if isinstance(value, str) else ""


def index_of(value: object) -> int | None:
    """Return the number by which a stream names a call or a block, also as a text; None for what is none."""
    try:
        return int(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None


def arguments_piece(value: JsonValue) -> str:
    """Return a piece of the arguments of a call; some servers send them as an object instead of its JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def has_no_arguments(raw: str) -> bool:
    """Return True if `raw` is a form in which servers write that there are no arguments."""
    return raw.strip() in _NO_ARGUMENTS


def sent_arguments(call: ToolCallPart) -> dict[str, JsonValue]:
    """The arguments as an object, for providers that accept only objects; invalid ones as `{"unparsed": text}`."""
    return {"unparsed": call.raw_arguments} if call.arguments is None else call.arguments


def as_written(call: ToolCallPart) -> str | None:
    """The arguments as the model wrote them; None for none, and for an object in a form that providers refuse."""
    is_object = call.raw_arguments.lstrip().startswith("{")
    return call.raw_arguments if call.raw_arguments and (is_object or call.arguments is None) else None


def without_loose_reasoning(parts: Sequence[AnswerPart]) -> tuple[AnswerPart, ...]:
    """`parts` up to the last text or call: providers refuse reasoning after which the answer was cut off."""
    end = len(parts)
    while end and isinstance(parts[end - 1], ReasoningPart):
        end -= 1
    return tuple(parts[:end])


def with_words(request: CallModelInput, step: ModelStep) -> ModelStep:
    """The answer where it has to be a text: without calls, and with `request.text_if_none` if the model wrote none. Not
    every provider can forbid tool calls, and not every server obeys.
    """
    if request.text_if_none is None or (step.text.strip() and not step.tool_calls):
        return step
    kept = without_loose_reasoning([part for part in step.parts if not isinstance(part, ToolCallPart)])
    words = () if step.text.strip() else (TextPart(text=request.text_if_none),)
    dropped = f"{request.provider_id} called a tool although tool calls are disabled: the call was dropped."
    return step.model_copy(
        update={
            "parts": (*kept, *words),
            "finish_reason": "other" if step.finish_reason == "tool_calls" else step.finish_reason,
            "warnings": (*step.warnings, *((dropped,) if step.tool_calls else ())),
        }
    )


def is_from(part: ReasoningPart, request: CallModelInput) -> bool:
    """Return True if the model of this call wrote the reasoning: no other model can read it."""
    return (part.provider_id, part.model_id) == (request.provider_id, request.model_id)


def tokens(usage: object, *path: str) -> int:
    """Return the number at `path`; 0 when the server omits it."""
    for name in path:
        usage = cast(Mapping[str, object], usage).get(name) if isinstance(usage, Mapping) else None
    return int(usage) if isinstance(usage, int | float) and 0 <= usage < _MOST_TOKENS else 0


def read_arguments(raw: str) -> dict[str, JsonValue] | None:
    """Return the arguments as an object; None for anything else. An object as JSON in a text is read as the object."""
    if has_no_arguments(raw):
        return {}
    if len(raw) > MAX_ARGUMENT_CHARS:
        return None
    value = _json(raw)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _json(value)
    return cast(dict[str, JsonValue], value) if isinstance(value, dict) else None


def _json(text: str) -> object:
    if number_flaws(text.encode(errors="replace")):
        return None
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        if _HALF not in text.lower():
            return None
    try:
        # Half a character, written as an escape: pydantic's parser refuses it.
        return from_json(valid_json_text(text.encode()), allow_inf_nan=False)
    except ValueError:
        return None


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
            raise json.JSONDecodeError("an event is not a complete JSON object", left[:200], len(left[:200]))
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
