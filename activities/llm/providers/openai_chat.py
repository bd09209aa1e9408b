"""OpenAI's Chat Completions API, which Z.ai and many other servers implement.

An answer in the chunks of OpenAI's Chat Completions, as the many servers send them that speak it nearly.

Each of these occurs, and gives the same calls and texts as a stream of OpenAI:

- calls in parallel that all have index 0 and different ids (Ollama), and indexes that are missing, null, texts, or
  begin with 1;
- id and name repeated with every piece of the arguments, or a new id with every piece (vLLM);
- ids that are missing, or the same for two calls (`call_id` of `answers` gives them distinct ones);
- arguments as an object, `{}` before the real ones, whole ones repeated after their pieces, a piece before the name;
  `null` or `[]` for no arguments; calls without `function`;
- content that is a list of parts, a whole message where a delta was due, and no `choices` at all;
- an end that is marked by `finish_reason`, by `[DONE]`, by both, or by neither; a text `null` before it.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Literal, cast

from pydantic import JsonValue, TypeAdapter

from outlast.activities.contracts import JsonObject
from outlast.activities.conversations import contracts as conversations
from outlast.activities.llm.contracts import CallModelInput, ModelStep, Usage
from outlast.activities.llm.providers import answers, requests
from outlast.activities.llm.providers.answers import StreamedText
from outlast.activities.llm.providers.models import MATRIX
from outlast.activities.llm.providers.requests import Definition, ToolPlan, plan_tools, read_definitions
from outlast.activities.llm.providers.streamed_provider import StreamedProvider
from outlast.activities.media import PICTURES
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

    def __init__(self, listener: answers.Listener, *, step: int, tools: Collection[str]) -> None:
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
            self._say(self._text.feed(_content(delta.get("content")) or answers.text_of(delta.get("refusal"))))
            for call in _calls(delta):
                self._add_call(_piece(call))
        if (reason := answers.text_of(choice.get("finish_reason"))) == "error":
            self.error = choice.get("error") or "the model failed (finish_reason error)"
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
            call = Call(answers.call_id(piece.id or None, {one.id for one in self.calls}, self._step))
            self.calls.append(call)
        if piece.index is not None:
            self._by_index[piece.index] = call
        self._of_chunk.append(call)
        call.own_id = piece.id or call.own_id
        call.name = self._name(call.name, piece.name)
        if piece.arguments.strip() and answers.has_no_arguments(piece.arguments) and not call.arguments:
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
        is_repeated = answers.read_arguments(valid_text(piece.arguments)) in (
            {},
            answers.read_arguments(call.arguments),
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
    return arguments.rstrip().endswith("}") and answers.read_arguments(valid_text(arguments)) is not None


def _piece(given: JsonObject) -> _Piece:
    function = given.get("function")
    inner = function if isinstance(function, dict) else given
    arguments = answers.arguments_piece(inner.get("arguments"))
    own_id = given.get("id")
    return _Piece(
        index=answers.index_of(given.get("index")),
        id=valid_text(own_id) if isinstance(own_id, str) else "" if own_id is None else str(own_id),
        name=valid_text(answers.text_of(inner.get("name"))),
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
            part if isinstance(part, str) else answers.text_of(part.get("text"))
            for part in value
            if isinstance(part, str) or (isinstance(part, dict) and part.get("type") not in _OF_REASONING)
        )
    return answers.text_of(value)


_OF_REASONING = ("thinking", "reasoning")


def _reasoning(delta: JsonObject) -> str:
    """Return the model's reasoning: an extension of the protocol, under one of three names."""
    for name in ("reasoning_content", "reasoning", "thinking"):
        if text := answers.text_of(delta.get(name)):
            return text
    parts = _objects(delta.get("content"))
    return "".join(_content(part.get(str(part["type"]))) for part in parts if part.get("type") in _OF_REASONING)


def _objects(value: JsonValue) -> list[JsonObject]:
    return [cast(JsonObject, one) for one in value if isinstance(one, dict)] if isinstance(value, list) else []


_ARGUMENTS = TypeAdapter(dict[str, JsonValue])
_UNSEEN = "[The user sent a picture ({}), which you cannot see.]"
_SHOWN_BELOW = "(The picture follows.)"


class OpenAIChatProvider(StreamedProvider[ChatAnswer]):
    """The provider `zai` or `generic`."""

    path = "/chat/completions"

    def request(self, request: CallModelInput) -> tuple[JsonObject, ToolPlan]:
        """See `StreamedProvider`."""
        return request_body(request, self.id)

    def answer(self, request: CallModelInput, listener: answers.Listener) -> ChatAnswer:
        """See `StreamedProvider`."""
        tools = {one.name for one in read_definitions(request.definitions_json)}
        return ChatAnswer(listener, step=request.step, tools=tools)

    def step(self, request: CallModelInput, answer: ChatAnswer, plan: ToolPlan) -> ModelStep:
        """See `StreamedProvider`."""
        return ModelStep(
            parts=answers.without_loose_reasoning(list(_parts(request, answer))),
            finish_reason=answer.finished,
            usage=Usage(
                input_tokens=answers.tokens(answer.usage, "prompt_tokens"),
                output_tokens=answers.tokens(answer.usage, "completion_tokens"),
                cache_read_tokens=answers.tokens(answer.usage, "prompt_tokens_details", "cached_tokens"),
                cache_write_tokens=answers.tokens(answer.usage, "prompt_tokens_details", "cache_write_tokens"),
            ),
            warnings=(*plan.warnings, *requests.loose_schema_warnings(self.id, request.controls.output_schema)),
        )


def request_body(request: CallModelInput, provider_id: str) -> tuple[JsonObject, ToolPlan]:
    """Return the request, in the order of the prompt: what changes from step to step or with the mask comes last."""
    can = MATRIX[provider_id]
    definitions = read_definitions(request.definitions_json)
    plan = plan_tools(definitions, request.active_tools, provider_id, can)
    body: JsonObject = {"model": request.model_id}
    if definitions:
        body["tools"] = [_tool(one) for one in definitions]
    # One system message: many servers do not accept a second one.
    system = "\n\n".join(text for text in (request.system, request.dynamic) if text)
    messages: list[JsonValue] = [{"role": "system", "content": system}] if system else []
    body["messages"] = messages + [sent for message in request.messages for sent in _messages(message, request)]
    if plan.choice == "none":
        body["tool_choice"] = "none"
    body |= {"max_tokens": request.max_output_tokens, "stream": True}
    if can.streams_usage == "on_request":
        body["stream_options"] = {"include_usage": True}
    return requests.with_extra(provider_id, {**body, **_controls(request, provider_id)}, request.extra), plan


def _controls(request: CallModelInput, provider_id: str) -> JsonObject:
    controls, fields = request.controls, JsonObject()
    if controls.temperature is not None:
        fields["temperature"] = controls.temperature
    if provider_id == "zai" and controls.effort is not None:
        fields["thinking"] = {"type": "disabled" if controls.effort == "none" else "enabled"}
    if controls.effort is not None and not (provider_id == "zai" and controls.effort == "none"):
        fields["reasoning_effort"] = controls.effort
    if controls.output_schema is not None:
        schema = controls.output_schema
        named: JsonObject = {"name": "answer", "schema": schema, "strict": requests.is_strict(schema)}
        fields["response_format"] = {"type": "json_schema", "json_schema": named}
    if controls.stop:
        fields["stop"] = list(controls.stop)
    if controls.seed is not None:
        fields["seed"] = controls.seed
    return fields


def _tool(definition: Definition) -> JsonObject:
    function: JsonObject = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.input_schema,
    }
    return {"type": "function", "function": function}


def _messages(message: conversations.ModelMessage, request: CallModelInput) -> list[JsonValue]:
    match message.role:
        case "assistant":
            return _assistant(message, request)
        case "tool":
            return _results(message, request)
        case "user":
            content = _message_content(message, request)
            return [{"role": "user", "content": content}] if content else []


def _results(message: conversations.ModelMessage, request: CallModelInput) -> list[JsonValue]:
    """Return the results of a step's calls. They hold text only, so pictures follow in a message of the user."""
    results: list[JsonValue] = []
    pictures: list[JsonValue] = []
    for part in message.parts:
        if not isinstance(part, conversations.ToolResultPart):
            continue
        text, media = requests.result_content(part, requests.shown_to(request, PICTURES))
        content = text or (_SHOWN_BELOW if media else "")
        results.append({"role": "tool", "tool_call_id": part.call_id, "content": content})
        if media:
            label = f"Not from the user: what the call {part.call_id} of {part.name} has shown."
            pictures.append({"type": "text", "text": label})
            pictures.extend(_picture(one) for one in media)
    return [*results, {"role": "user", "content": pictures}] if pictures else results


def _picture(media: conversations.MediaPart) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": requests.data_url(media)}}


def _assistant(message: conversations.ModelMessage, request: CallModelInput) -> list[JsonValue]:
    text = "".join(part.text for part in message.parts if isinstance(part, conversations.TextPart))
    calls: list[JsonValue] = [_call(part) for part in message.parts if isinstance(part, conversations.ToolCallPart)]
    if not text and not calls:
        return []
    sent: JsonObject = {"role": "assistant", "content": text or None}
    if calls:
        sent["tool_calls"] = calls
    for part in message.parts:
        if isinstance(part, conversations.ReasoningPart) and answers.is_from(part, request):
            sent |= part.block
    return [sent]


def _call(part: conversations.ToolCallPart) -> JsonObject:
    # Some servers parse the arguments of earlier calls, and fail when they are not a JSON object.
    arguments = answers.as_written(part) if part.arguments is not None else None
    written = arguments or _ARGUMENTS.dump_json(answers.sent_arguments(part)).decode()
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": written}}


def _message_content(message: conversations.ModelMessage, request: CallModelInput) -> JsonValue:
    """Return a string for a message with one text, which all servers accept; else a list of parts."""
    if all(isinstance(part, conversations.TextPart) for part in message.parts) and len(message.parts) == 1:
        return "".join(part.text for part in message.parts if isinstance(part, conversations.TextPart))
    parts: list[JsonValue] = []
    for part in message.parts:
        match part:
            case conversations.TextPart(text=text) if text:
                parts.append({"type": "text", "text": text})
            case conversations.ImagePart() if request.sees_pictures is False:
                parts.append({"type": "text", "text": _UNSEEN.format(part.media_type)})
            case conversations.ImagePart():
                parts.append(_users_picture(part))
            case _:
                pass
    return parts


def _users_picture(part: conversations.ImagePart) -> JsonObject:
    shown = requests.users_picture(part)
    if isinstance(shown, str):
        return {"type": "text", "text": shown}
    return {"type": "image_url", "image_url": {"url": requests.picture_address(shown)}}


def _parts(request: CallModelInput, answer: ChatAnswer) -> Iterator[conversations.AnswerPart]:
    if answer.reasoning and MATRIX[request.provider_id].keeps_reasoning:
        block: JsonObject = {"reasoning_content": answer.reasoning}
        yield conversations.ReasoningPart(
            provider_id=request.provider_id, model_id=request.model_id, text=answer.reasoning, block=block
        )
    if answer.text:
        yield conversations.TextPart(text=answer.text)
    for call in answer.calls:
        yield answers.tool_call(call.id, call.name, call.arguments)
