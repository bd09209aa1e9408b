"""An answer in the chunks of OpenAI's Chat Completions, as the many servers send them that speak it nearly.

Each of these occurs, and gives the same calls and texts as a stream of OpenAI:

- calls in parallel that all have index 0 and different ids (Ollama), and indexes that are missing, null, texts, or
  begin with 1;
- id and name repeated with every piece of the arguments, or a new id with every piece (vLLM);
- ids that are missing, or the same for two calls (`call_id` of `parsing` gives them distinct ones);
- arguments as an object, `{}` before the real ones, whole ones repeated after their pieces, a piece before the name;
  `null` or `[]` for no arguments; calls without `function`;
- content that is a list of parts, a whole message where a delta was due, and no `choices` at all;
- an end that is marked by `finish_reason`, by `[DONE]`, by both, or by neither; a text `null` before it.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal, cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.llm.providers import parsing
from outlast.activities.llm.providers.stream_events import StreamedText
from outlast.activities.unicode_text import valid_text

FinishReason = Literal["stop", "tool_calls", "length", "content_filter", "other"]
_FINISH: dict[str, FinishReason] = {
    "length": "length",
    "max_tokens": "length",
    "model_length": "length",
    "content_filter": "content_filter",
    "stop": "stop",
    "stop_sequence": "stop",
    "end_turn": "stop",
    "eos": "stop",
    "eos_token": "stop",
    "tool_calls": "stop",
    "tool_use": "stop",
    "function_call": "stop",
}
"""Names that servers have for the end of an answer. Calls make a `stop` to `tool_calls`: servers differ in that."""

_NOT_FINISHED = frozenset({"", "null", "none"})
_EMPTY = "{}"


@dataclass(eq=False)
class Call:
    """A call received so far. `own_id` is the id that the server gave it last."""

    id: str
    own_id: str = ""
    name: str = ""
    arguments: str = ""
    unheard: str = ""
    """The arguments that came before the name."""
    text: StreamedText = field(default_factory=StreamedText)
    is_empty: bool = False
    """`{}` or `null` came, which counts only if no other arguments follow."""

    @property
    def is_whole(self) -> bool:
        """True if the arguments are a whole object."""
        return is_whole_object(self.arguments)


@dataclass(frozen=True)
class _Piece:
    """A piece of a call, as one chunk has it. `is_whole`: the arguments are a whole object by themselves."""

    index: int | None
    id: str
    name: str
    arguments: str
    is_whole: bool


class ChatAnswer:
    """The answer received so far, whose pieces go to a listener as they come."""

    def __init__(self, listener: parsing.Listener, *, step: int, tools: Collection[str]) -> None:
        """`tools` are the names of the offered tools: they show where one name ends and another begins."""
        self._listener, self._step, self._tools = listener, step, tools
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._text, self._thought = StreamedText(), StreamedText()
        self._choice: JsonValue = None
        self._by_index: dict[int, Call] = {}
        self._of_chunk: list[Call] = []
        self.calls: list[Call] = []
        self.finish_reason: str | None = None
        self.usage: JsonObject | None = None
        self.error: JsonValue = None
        """The reason of the failure, if a choice reports one."""
        self.has_begun = False

    @property
    def text(self) -> str:
        """The text so far."""
        return "".join(self._texts)

    @property
    def reasoning(self) -> str:
        """The reasoning so far, if the server shows it."""
        return "".join(self._thoughts)

    @property
    def is_open(self) -> bool:
        """True if something is missing for certain: nothing came yet, or the last call's arguments are unfinished."""
        if not self.calls:
            return not self.text
        return not (self.calls[-1].is_whole or self.calls[-1].is_empty)

    @property
    def finished(self) -> FinishReason:
        """The reason of the end; `other` if the server gave none."""
        named = _FINISH.get((self.finish_reason or "").lower(), "other")
        return "tool_calls" if self.calls and named in ("stop", "other") else named

    @property
    def is_whole(self) -> bool:
        """True once the server has given the reason of the end: only token counts may follow."""
        return self.finish_reason is not None

    def add(self, event: JsonObject) -> bool:
        """Add an event of the stream. Returns False: none is the last for certain."""
        self._of_chunk = []
        self._count(event.get("usage"))
        for choice in _objects(event.get("choices")):
            self.has_begun = True
            self._count(choice.get("usage"))
            number = choice.get("index")
            if self._choice is None:
                self._choice = number
            if number is None or number == self._choice:
                self._add_choice(choice)
        return False

    def end(self, *, is_done: bool) -> bool:
        """Pass on what was held back. Returns False if the answer was cut off."""
        self._say(self._text.end())
        self._thoughts.append(self._thought.end())
        for call in self.calls:
            self._argue(call, call.text.end())
            if call.is_empty and not call.arguments:
                self._argue(call, _EMPTY)
        if is_done and not self.is_whole:
            has_end = self.has_begun or not self.is_open
            self.finish_reason = "stop"
            return has_end
        return self.is_whole or not self.is_open

    def _count(self, usage: JsonValue) -> None:
        if isinstance(usage, dict) and usage:
            self.usage, self.has_begun = usage, True

    def _add_choice(self, choice: JsonObject) -> None:
        # A whole message takes the place of a delta in an answer that the server did not stream. The last chunk of some
        # streams has one, too, which repeats what came before.
        has_more = not (self._texts or self.calls)
        delta = choice.get("delta") or (choice.get("message") if has_more else None)
        if isinstance(delta, dict):
            self._thoughts.append(self._thought.feed(_reasoning(delta)))
            self._say(self._text.feed(_content(delta.get("content")) or parsing.text_of(delta.get("refusal"))))
            for call in _calls(delta):
                self._add_call(_piece(call))
        if (reason := parsing.text_of(choice.get("finish_reason"))) == "error":
            self.error = choice.get("error") or "the model has failed (finish_reason error)"
        if reason.lower() not in _NOT_FINISHED:
            self.finish_reason = reason

    def _say(self, text: str) -> None:
        if text:
            self._texts.append(text)
            self._listener.text(text)

    def _argue(self, call: Call, text: str) -> None:
        call.arguments += text
        call.unheard += text
        if call.unheard and call.name:
            self._listener.arguments(call.id, call.name, call.unheard)
            call.unheard = ""

    def _add_call(self, piece: _Piece) -> None:
        call = self._call_of(piece)
        if call is None:
            call = Call(parsing.call_id(piece.id or None, {one.id for one in self.calls}, self._step))
            self.calls.append(call)
        if piece.index is not None:
            self._by_index[piece.index] = call
        self._of_chunk.append(call)
        call.own_id = piece.id or call.own_id
        call.name = self._name(call.name, piece.name)
        if piece.arguments.strip() and parsing.has_no_arguments(piece.arguments) and not call.arguments:
            call.is_empty = True
        elif not (piece.is_whole and call.is_whole):
            self._argue(call, call.text.feed(piece.arguments))

    def _call_of(self, piece: _Piece) -> Call | None:
        """Return the call that a piece belongs to; None for the first piece of another one."""
        same_id = next((call for call in reversed(self.calls) if piece.id and call.own_id == piece.id), None)
        last = self.calls[-1] if self.calls else None
        call = (same_id or last) if piece.index is None else self._by_index.get(piece.index)
        if call is None:
            if not (piece.name or piece.id):
                return last
            # An index that grows with every piece of one call; else another call.
            return same_id if same_id and same_id.arguments and not same_id.is_whole else None
        if piece.id and call.own_id and piece.id != call.own_id:
            if same_id is None and self._is_another(call, piece, has_own_id=True):
                return None
            return same_id or call
        return None if self._is_another(call, piece, has_own_id=False) else call

    def _is_another(self, call: Call, piece: _Piece, *, has_own_id: bool) -> bool:
        """Return True if a piece begins another call than `call`, which its index names or which came last. With
        `has_own_id` its id is another than that of `call`. A call has a name; pieces without one continue.
        """
        if not piece.name:
            return False
        if piece.name != call.name and not self._can_extend(call, piece.name):
            return True
        if has_own_id:
            # The same name and no whole object: a piece of the same arguments, if the server gives each piece an id.
            return not piece.arguments or piece.is_whole or call.is_whole
        if not piece.id and call in self._of_chunk:
            return True
        is_repeated = parsing.read_arguments(valid_text(piece.arguments)) in (
            {},
            parsing.read_arguments(call.arguments),
        )
        return call.is_whole and not is_repeated

    def _can_extend(self, call: Call, name: str) -> bool:
        """Return True if `name` may be the next piece of the call's name, or the name so far."""
        if not call.name:
            return True
        if call.arguments or call.is_empty:
            return False
        return call.name not in self._tools or call.name + name in self._tools or name.startswith(call.name)

    def _name(self, before: str, piece: str) -> str:
        """Return the name with its next piece. Most servers send it whole, and some of them again with each piece."""
        if not before or piece.startswith(before):
            return piece or before
        return before + piece if before not in self._tools or before + piece in self._tools else before


def is_whole_object(arguments: str) -> bool:
    """Return True if `arguments` are a whole JSON object."""
    return arguments.rstrip().endswith("}") and parsing.read_arguments(valid_text(arguments)) is not None


def _piece(given: JsonObject) -> _Piece:
    function = given.get("function")
    inner = function if isinstance(function, dict) else given
    arguments = parsing.arguments_piece(inner.get("arguments"))
    own_id = given.get("id")
    return _Piece(
        index=parsing.index_of(given.get("index")),
        id=valid_text(own_id) if isinstance(own_id, str) else "" if own_id is None else str(own_id),
        name=valid_text(parsing.text_of(inner.get("name"))),
        arguments=arguments,
        is_whole=is_whole_object(arguments),
    )


def _calls(delta: JsonObject) -> Iterator[JsonObject]:
    given = delta.get("tool_calls")
    yield from _objects([given] if isinstance(given, dict) else given)
    if isinstance(legacy := delta.get("function_call"), dict):
        yield {"function": legacy}


def _content(value: JsonValue) -> str:
    """Return the text of a content that is one, or a list of parts."""
    if isinstance(value, list):
        return "".join(
            part if isinstance(part, str) else parsing.text_of(part.get("text"))
            for part in value
            if isinstance(part, str) or (isinstance(part, dict) and part.get("type") not in _OF_REASONING)
        )
    return parsing.text_of(value)


_OF_REASONING = ("thinking", "reasoning")


def _reasoning(delta: JsonObject) -> str:
    """Return the model's reasoning: an extension of the protocol, under one of three names."""
    for name in ("reasoning_content", "reasoning", "thinking"):
        if text := parsing.text_of(delta.get(name)):
            return text
    parts = _objects(delta.get("content"))
    return "".join(_content(part.get(str(part["type"]))) for part in parts if part.get("type") in _OF_REASONING)


def _objects(value: JsonValue) -> list[JsonObject]:
    return [cast(JsonObject, one) for one in value if isinstance(one, dict)] if isinstance(value, list) else []
