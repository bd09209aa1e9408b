"""Anthropic's Messages API: constant definitions, and breakpoints up to which the prompt is cached."""

from dataclasses import dataclass, field
from typing import Literal, cast

from anthropic import AsyncAnthropic, AsyncStream
from anthropic.types import Message, RawContentBlockDelta, RawContentBlockStartEvent, RawMessageStreamEvent
from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.llm.contracts import (
    AnswerPart,
    CallModelInput,
    ImagePart,
    MediaPart,
    ModelMessage,
    ModelStep,
    Part,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from outlast.activities.llm.providers.capabilities import MATRIX
from outlast.activities.llm.providers.extra_fields import with_extra
from outlast.activities.llm.providers.parsing import is_from, sent_arguments, tool_call, without_loose_reasoning
from outlast.activities.llm.providers.provider import Listener
from outlast.activities.llm.providers.sdk_failures import provider_failures, stream_ended_early
from outlast.activities.llm.providers.sdk_streams import StreamEvents
from outlast.activities.llm.providers.tool_choice import ToolPlan, plan_tools
from outlast.activities.llm.providers.tool_definitions import read_definitions
from outlast.activities.llm.providers.tool_media import PDF, SHOWN, result_content, shown_to

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


@dataclass
class _Answer:
    """The answer received so far. `counts` are the latest numbers of tokens."""

    blocks: dict[int, _Block] = field(default_factory=dict[int, _Block])
    stop_reason: str | None = None
    counts: dict[str, int] = field(default_factory=dict[str, int])

    def count(self, usage: object) -> None:
        """Replace the numbers that `usage` contains: each event counts from the beginning."""
        latest = {name: getattr(usage, name, None) for name in _COUNTS}
        self.counts |= {name: value for name, value in latest.items() if isinstance(value, int)}


class AnthropicMessagesProvider:
    """A `Provider`. The client's own retries are off: Temporal retries."""

    def __init__(self, client: AsyncAnthropic) -> None:
        """Take a client with the key, the address and the time limits."""
        self._client = client.with_options(max_retries=0)

    async def call(self, request: CallModelInput, listener: Listener) -> ModelStep:
        """See `Provider`."""
        body, plan = request_body(request)
        with provider_failures(_ID, self._client.api_key or ""):
            answer = await self._streamed(body, listener)
        return _step(request, answer, plan)

    async def close(self) -> None:
        """See `Provider`."""
        await self._client.close()

    async def _streamed(self, body: JsonObject, listener: Listener) -> _Answer:
        stream = await self._client.post(
            "/v1/messages",
            body=body,
            cast_to=Message,
            stream=True,
            stream_cls=AsyncStream[RawMessageStreamEvent],
        )
        answer = _Answer()
        async with StreamEvents(stream) as events:
            async for event in events:
                match event.type:
                    case "message_start":
                        answer.count(event.message.usage)
                    case "content_block_start":
                        _begin(answer, event, listener)
                    case "content_block_delta":
                        _add(answer, event.index, event.delta, listener)
                    case "message_delta":
                        answer.stop_reason = event.delta.stop_reason
                        answer.count(event.usage)
                    case "message_stop":
                        return answer
                    case "content_block_stop":
                        pass
        raise stream_ended_early(_ID)


def _begin(answer: _Answer, event: RawContentBlockStartEvent, listener: Listener) -> None:
    block = event.content_block
    match block.type:
        case "text":
            answer.blocks[event.index] = _Block("text", text=block.text)
            if block.text:
                listener.text(block.text)
        case "tool_use":
            answer.blocks[event.index] = _Block("tool_use", block.id, block.name)
        case "thinking":
            answer.blocks[event.index] = _Block("thinking", text=block.thinking, signature=block.signature)
        case "redacted_thinking":
            answer.blocks[event.index] = _Block("redacted_thinking", text=block.data)
        case _:
            pass


def _add(answer: _Answer, index: int, delta: RawContentBlockDelta, listener: Listener) -> None:
    block = answer.blocks.get(index)
    if block is None:
        return
    match delta.type:
        case "text_delta":
            block.text += delta.text
            listener.text(delta.text)
        case "input_json_delta":
            block.text += delta.partial_json
            listener.arguments(block.id, block.name, delta.partial_json)
        case "thinking_delta":
            block.text += delta.thinking
        case "signature_delta":
            block.signature += delta.signature
        case _:
            pass


def request_body(request: CallModelInput) -> tuple[JsonObject, ToolPlan]:
    """The request, in the order of the prompt, with its four breakpoints: definitions, static text, two in messages.

    The next step reads the cache up to the breakpoint at the end of the conversation; this step reads it up to the one
    before, however many blocks were added (from a single breakpoint, the API looks back only 20 blocks).
    """
    definitions = read_definitions(request.definitions_json)
    plan = plan_tools(definitions, request.active_tools, _ID, MATRIX[_ID])
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
    return with_extra(_ID, body, request.extra), plan


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


def _message(message: ModelMessage, request: CallModelInput) -> tuple[str, list[JsonObject]] | None:
    """Role and blocks; None for an empty message, which the API rejects."""
    sendable = (part for part in message.parts if not isinstance(part, ReasoningPart) or is_from(part, request))
    parts = [block for part in sendable if (block := _block(part, request)) is not None]
    # The API accepts results only at the beginning of a message.
    blocks = sorted(parts, key=lambda block: block["type"] != "tool_result")
    return ("assistant" if message.role == "assistant" else "user", blocks) if blocks else None


def _block(part: Part, request: CallModelInput) -> JsonObject | None:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text} if part.text.strip() else None
        case ImagePart(url=None):
            source: JsonObject = {"type": "base64", "media_type": part.media_type, "data": part.data}
            return {"type": "image", "source": source}
        case ImagePart():
            return {"type": "image", "source": {"type": "url", "url": part.url}}
        case ReasoningPart():
            return part.block
        case ToolCallPart():
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": sent_arguments(part)}
        case ToolResultPart():
            return _tool_result(part, request)


def _tool_result(part: ToolResultPart, request: CallModelInput) -> JsonObject:
    text, media = result_content(part, shown_to(request, SHOWN))
    # A result may be empty, a text block may not.
    content: list[JsonValue] = [{"type": "text", "text": text}] if text.strip() else []
    content += [_media(one) for one in media]
    return {"type": "tool_result", "tool_use_id": part.call_id, "content": content, "is_error": part.is_error}


def _media(media: MediaPart) -> JsonObject:
    source: JsonObject = {"type": "base64", "media_type": media.media_type, "data": media.data}
    return {"type": "document" if media.media_type == PDF else "image", "source": source}


def _step(request: CallModelInput, answer: _Answer, plan: ToolPlan) -> ModelStep:
    blocks = [block for _, block in sorted(answer.blocks.items())]
    parts = [part for block in blocks if (part := _part(request, block)) is not None]
    read, written = answer.counts.get(_COUNTS[2], 0), answer.counts.get(_COUNTS[3], 0)
    return ModelStep(
        parts=without_loose_reasoning(parts),
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


def _part(request: CallModelInput, block: _Block) -> AnswerPart | None:
    """The part of a block; None for an empty text, and for thinking that was cut off before it was signed."""
    match block.type:
        case "tool_use":
            return tool_call(block.id, block.name, block.text)
        case "thinking" if block.signature:
            sent: JsonObject = {"type": "thinking", "thinking": block.text, "signature": block.signature}
            return _reasoning(request, block.text, sent)
        case "redacted_thinking":
            return _reasoning(request, "", {"type": "redacted_thinking", "data": block.text})
        case "text" if block.text:
            return TextPart(text=block.text)
        case _:
            return None


def _reasoning(request: CallModelInput, text: str, block: JsonObject) -> ReasoningPart:
    return ReasoningPart(provider_id=_ID, model_id=request.model_id, text=text, block=block)
