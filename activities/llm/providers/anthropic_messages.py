"""Anthropic's Messages API: constant definitions, and breakpoints up to which the prompt is cached."""

import json
from dataclasses import dataclass, field
from typing import Literal, cast

from anthropic import AsyncAnthropic
from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.conversations import contracts as conversations
from outlast.activities.llm.contracts import CallModelInput, ModelStep, Usage
from outlast.activities.llm.providers import answers, requests
from outlast.activities.llm.providers.answers import StreamedText
from outlast.activities.llm.providers.models import MATRIX
from outlast.activities.llm.providers.streamed_provider import StreamedProvider
from outlast.activities.media import PDF
from outlast.activities.unicode_text import valid_text

_ID = "anthropic"
_BREAKPOINT: JsonObject = {"type": "ephemeral"}
_FINISH: dict[str | None, Literal["stop", "tool_calls", "length", "content_filter"]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


@dataclass
class _Block:
    """A block of the answer. `text` is a text, a call's arguments, what was thought, or redacted thinking's data."""

    type: str
    id: str = ""
    name: str = ""
    text: str = ""
    signature: str = ""
    whole_input: str = ""
    """A call's arguments, where they came with the beginning of the block."""
    is_open: bool = True
    pieces: StreamedText = field(default_factory=StreamedText)

    def is_begun_by(self, given: JsonObject) -> bool:
        """Return True if `given` repeats the beginning of this call, to which nothing was added yet."""
        return self.type == "tool_use" and not self.text and self.id != "" and self.id == given.get("id")


class _Answer:
    """The answer received so far. `counts` are the latest numbers of tokens. A delta counts only for the open block of
    its index, and only if it is of the block's type.
    """

    def __init__(self, listener: answers.Listener, step: int) -> None:
        self._listener, self._step = listener, step
        self._by_index: dict[int | None, _Block] = {}
        self.blocks: list[_Block] = []
        self.stop_reason: str | None = None
        self.counts: dict[str, int] = {}
        self.error: JsonValue = None

    @property
    def is_whole(self) -> bool:
        return self.stop_reason is not None

    def add(self, event: JsonObject) -> bool:
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._count(message.get("usage"))
            case {"type": "content_block_start", "content_block": {"type": str(kind), **block}}:
                self._begin(answers.index_of(event.get("index")), kind, cast(JsonObject, block))
            case {"type": "content_block_delta", "delta": {"type": str(kind), **delta}}:
                self._add_delta(answers.index_of(event.get("index")), kind, cast(JsonObject, delta))
            case {"type": "content_block_stop"}:
                self._close(self._by_index.pop(self._named(answers.index_of(event.get("index"))), None))
            case {"type": "message_delta", **rest}:
                delta = rest.get("delta")
                self._stop(delta.get("stop_reason") if isinstance(delta, dict) else None)
                self._count(rest.get("usage"))
            case {"type": "message", "content": list(blocks), **message}:
                # The whole answer: the server does not stream.
                self._add_whole(blocks)
                self._stop(message.get("stop_reason"))
                self._count(message.get("usage"))
            case _:
                pass
        return event.get("type") == "message_stop"

    def end(self, *, is_done: bool) -> bool:  # noqa: ARG002 (servers may leave the mark out)
        for block in self.blocks:
            self._close(block)
        return self.is_whole

    def _add_whole(self, blocks: list[JsonValue]) -> None:
        for index, block in enumerate(blocks):
            if isinstance(block, dict):
                self._begin(index, answers.text_of(block.get("type")), block)
                self._close(self._by_index.pop(index))

    def _stop(self, reason: JsonValue) -> None:
        self.stop_reason = answers.text_of(reason) or self.stop_reason

    def _count(self, usage: JsonValue) -> None:
        """Replace the numbers that `usage` contains: each event counts from the beginning."""
        if isinstance(usage, dict):
            self.counts |= {name: answers.tokens(usage, name) for name in _COUNTS if usage.get(name) is not None}

    def _named(self, index: int | None) -> int | None:
        """Return the index of the block that an event names; the last one that is open, if it names none."""
        return next(reversed(self._by_index), None) if index is None else index

    def _begin(self, index: int | None, kind: str, given: JsonObject) -> None:
        before = self._by_index.get(index)
        if before is not None and kind == "tool_use" and before.is_begun_by(given):
            return
        self._close(before)
        block = self._by_index[index] = _Block(kind)
        match kind:
            case "tool_use":
                block.id = answers.call_id(given.get("id"), {one.id for one in self.blocks}, self._step)
                block.name = valid_text(answers.text_of(given.get("name")))
                if given.get("input"):
                    block.whole_input = json.dumps(given["input"], ensure_ascii=False)
            case "thinking":
                block.signature = answers.text_of(given.get("signature"))
            case "redacted_thinking":
                block.text = answers.text_of(given.get("data"))
            case "text":
                pass
            case _:
                return
        self.blocks.append(block)
        self._write(block, answers.text_of(given.get("text") if kind == "text" else given.get("thinking")))

    def _add_delta(self, index: int | None, kind: str, delta: JsonObject) -> None:
        block = self._by_index.get(self._named(index))
        if block is None and kind == "text_delta":
            # Some gateways omit the beginning of a text.
            self._begin(index, "text", {})
            block = self._by_index[index]
        match block, kind:
            case _Block(type="text"), "text_delta":
                self._write(block, answers.text_of(delta.get("text")))
            case _Block(type="tool_use"), "input_json_delta":
                self._write(block, answers.arguments_piece(delta.get("partial_json")))
            case _Block(type="thinking"), "thinking_delta":
                self._write(block, answers.text_of(delta.get("thinking")))
            case _Block(type="thinking"), "signature_delta":
                block.signature += answers.text_of(delta.get("signature"))
            case _:
                pass

    def _write(self, block: _Block, piece: str) -> None:
        self._pass_on(block, block.pieces.feed(piece))

    def _pass_on(self, block: _Block, text: str) -> None:
        if not text:
            return
        block.text += text
        if block.type == "text":
            self._listener.text(text)
        elif block.type == "tool_use":
            self._listener.arguments(block.id, block.name, text)

    def _close(self, block: _Block | None) -> None:
        if block is None or not block.is_open:
            return
        block.is_open = False
        self._pass_on(block, block.pieces.end())
        if not block.text and block.whole_input:
            self._pass_on(block, block.whole_input)


class AnthropicMessagesProvider(StreamedProvider[_Answer]):
    """The provider `anthropic`."""

    path = "/v1/messages"

    def __init__(self, client: AsyncAnthropic) -> None:
        super().__init__(_ID, client)

    def request(self, request: CallModelInput) -> tuple[JsonObject, requests.ToolPlan]:
        """See `StreamedProvider`."""
        return request_body(request)

    def answer(self, request: CallModelInput, listener: answers.Listener) -> _Answer:
        """See `StreamedProvider`."""
        return _Answer(listener, request.step)

    def step(self, request: CallModelInput, answer: _Answer, plan: requests.ToolPlan) -> ModelStep:
        """See `StreamedProvider`."""
        parts = [part for block in answer.blocks if (part := _part(request, block)) is not None]
        read, written = answer.counts.get(_COUNTS[2], 0), answer.counts.get(_COUNTS[3], 0)
        return ModelStep(
            parts=answers.without_loose_reasoning(parts),
            finish_reason=_FINISH.get(answer.stop_reason, "other"),
            usage=Usage(
                # This API's count excludes tokens that are read from the cache or written to it.
                input_tokens=answer.counts.get("input_tokens", 0) + read + written,
                output_tokens=answer.counts.get("output_tokens", 0),
                cache_read_tokens=read,
                cache_write_tokens=written,
            ),
            warnings=plan.warnings,
        )


def request_body(request: CallModelInput) -> tuple[JsonObject, requests.ToolPlan]:
    """The request, in the order of the prompt, with its four breakpoints: definitions, static text, two in messages.
    The next step reads the cache up to the breakpoint at the end of the conversation; this step reads it up to the one
    before, however many blocks were added (from a single breakpoint, the API looks back only 20 blocks).
    """
    definitions = requests.read_definitions(request.definitions_json)
    plan = requests.plan_tools(definitions, request.active_tools, _ID, MATRIX[_ID])
    body: JsonObject = {"model": request.model_id}
    if definitions:
        tools: list[JsonObject] = [
            {"name": one.name, "description": one.description, "input_schema": one.input_schema} for one in definitions
        ]
        tools[-1]["cache_control"] = _BREAKPOINT
        body["tools"] = cast(list[JsonValue], tools)
    if system := _system(request):
        body["system"] = cast(list[JsonValue], system)
    messages = [sent for message in request.messages if (sent := _message(message, request)) is not None]
    asking = [blocks for role, blocks in messages if role == "user"]
    for blocks in asking[-2:]:
        blocks[-1]["cache_control"] = _BREAKPOINT
    body["messages"] = [{"role": role, "content": cast(list[JsonValue], blocks)} for role, blocks in messages]
    if plan.choice == "none":
        body["tool_choice"] = {"type": "none"}
    body |= {"max_tokens": request.max_output_tokens, "stream": True, **_controls(request)}
    return requests.with_extra(_ID, body, request.extra), plan


def _controls(request: CallModelInput) -> JsonObject:
    controls, fields = request.controls, JsonObject()
    output: JsonObject = {}
    if controls.thinking_tokens is not None:
        fields["thinking"] = {"type": "enabled", "budget_tokens": controls.thinking_tokens}
    elif controls.effort is not None:
        fields["thinking"] = {"type": "disabled" if controls.effort == "none" else "adaptive"}
    if controls.effort not in (None, "none"):
        output["effort"] = controls.effort
    if controls.output_schema is not None:
        output["format"] = {"type": "json_schema", "schema": controls.output_schema}
    if output:
        fields["output_config"] = output
    if controls.stop:
        fields["stop_sequences"] = list(controls.stop)
    return fields


def _system(request: CallModelInput) -> list[JsonObject]:
    """The static text with its breakpoint, then the dynamic text, which may change without the cached static one."""
    static: JsonObject = {"type": "text", "text": request.system, "cache_control": _BREAKPOINT}
    dynamic: JsonObject = {"type": "text", "text": request.dynamic}
    return [block for block in (static, dynamic) if block["text"]]


def _message(message: conversations.ModelMessage, request: CallModelInput) -> tuple[str, list[JsonObject]] | None:
    """Role and blocks; None for an empty message, which the API rejects."""
    sendable = (
        part
        for part in message.parts
        if not isinstance(part, conversations.ReasoningPart) or answers.is_from(part, request)
    )
    parts = [block for part in sendable if (block := _block(part, request)) is not None]
    # The API accepts results only at the beginning of a message.
    blocks = sorted(parts, key=lambda block: block["type"] != "tool_result")
    return ("assistant" if message.role == "assistant" else "user", blocks) if blocks else None


def _block(part: conversations.Part, request: CallModelInput) -> JsonObject | None:
    match part:
        case conversations.TextPart():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case conversations.ImagePart():
            return _picture(part)
        case conversations.ReasoningPart():
            return part.block
        case conversations.ToolCallPart():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": answers.sent_arguments(part)}
        case conversations.ToolResultPart():
            return _tool_result(part, request)


def _picture(part: conversations.ImagePart) -> JsonObject:
    match requests.users_picture(part):
        case str(words):
            return {"type": "text", "text": words}
        case conversations.ImagePart(url=None) as shown:
            source: JsonObject = {"type": "base64", "media_type": shown.media_type, "data": shown.data}
            return {"type": "image", "source": source}
        case shown:
            return {"type": "image", "source": {"type": "url", "url": shown.url}}


def _tool_result(part: conversations.ToolResultPart, request: CallModelInput) -> JsonObject:
    text, media = requests.result_content(part, requests.shown_to(request, requests.SHOWN))
    # A result may be empty, a text block may not.
    content: list[JsonValue] = [{"type": "text", "text": text}] if text.strip() else []
    content += [_media(one) for one in media]
    return {"type": "tool_result", "tool_use_id": part.call_id, "content": content, "is_error": part.is_error}


def _media(media: conversations.MediaPart) -> JsonObject:
    source: JsonObject = {"type": "base64", "media_type": media.media_type, "data": media.data}
    return {"type": "document" if media.media_type == PDF else "image", "source": source}


def _part(request: CallModelInput, block: _Block) -> conversations.AnswerPart | None:
    """Return the part of a block; None for an empty text, and for thinking that was cut off before it was signed."""
    match block.type:
        case "tool_use":
            return answers.tool_call(block.id, block.name, block.text)
        case "thinking" if block.signature:
            sent: JsonObject = {"type": "thinking", "thinking": block.text, "signature": block.signature}
            return _reasoning(request, block.text, sent)
        case "redacted_thinking":
            return _reasoning(request, "", {"type": "redacted_thinking", "data": block.text})
        case "text" if block.text:
            return conversations.TextPart(text=block.text)
        case _:
            return None


def _reasoning(request: CallModelInput, text: str, block: JsonObject) -> conversations.ReasoningPart:
    return conversations.ReasoningPart(provider_id=_ID, model_id=request.model_id, text=text, block=block)
