"""OpenAI's Chat Completions API, as Z.ai and many other servers speak it."""

from dataclasses import dataclass, field
from typing import Literal

from openai import AsyncOpenAI, AsyncStream, RequestOptions
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.chat.chat_completion_chunk import ChoiceDeltaToolCall
from pydantic import JsonValue, TypeAdapter

from outlast.activities.llm.contracts import (
    CallModelInput,
    ImagePart,
    ModelMessage,
    ModelStep,
    TextPart,
    ToolCallPart,
    ToolResultPart,
    Usage,
)
from outlast.activities.llm.providers.capabilities import MATRIX
from outlast.activities.llm.providers.definitions import Definition, JsonObject, read_definitions
from outlast.activities.llm.providers.parsing import sent_arguments, tokens, tool_call
from outlast.activities.llm.providers.provider import OnText
from outlast.activities.llm.providers.sdk_failures import broken_off, provider_failures
from outlast.activities.llm.providers.sdk_streams import StreamEvents
from outlast.activities.llm.providers.tool_choice import ToolPlan, plan_tools

_ARGUMENTS = TypeAdapter(dict[str, JsonValue])
_OPTIONS: RequestOptions = {"security": {"bearer_auth": True}}


@dataclass
class _Call:
    id: str = ""
    name: str = ""
    arguments: str = ""


@dataclass
class _Said:
    """An answer as it grows."""

    text: list[str] = field(default_factory=list[str])
    calls: dict[int, _Call] = field(default_factory=dict[int, _Call])
    finish_reason: str | None = None
    usage: object = None

    def add_call(self, delta: ChoiceDeltaToolCall) -> None:
        """Add what a piece of the stream says of a call."""
        call = self.calls.setdefault(delta.index, _Call())
        call.id = delta.id or call.id
        if delta.function is not None:
            call.name += delta.function.name or ""
            call.arguments += delta.function.arguments or ""


class OpenAIChatProvider:
    """A `Provider`. The client's own retries are off: Temporal retries."""

    def __init__(self, provider_id: str, client: AsyncOpenAI) -> None:
        """Take a client with the key, the address and the time limits."""
        self._id = provider_id
        self._client = client.with_options(max_retries=0)

    async def call(self, request: CallModelInput, on_text: OnText) -> ModelStep:
        """See `Provider`."""
        body, plan = request_body(request, self._id)
        with provider_failures(self._id, self._client.api_key):
            said = await (self._streamed(body, on_text) if request.stream else self._whole(body, on_text))
        return _step(said, plan, request.step)

    async def close(self) -> None:
        """See `Provider`."""
        await self._client.close()

    async def _whole(self, body: JsonObject, on_text: OnText) -> _Said:
        completion = await self._client.post("/chat/completions", body=body, cast_to=ChatCompletion, options=_OPTIONS)
        if not completion.choices:
            raise broken_off(self._id)
        choice = completion.choices[0]
        said = _Said(finish_reason=choice.finish_reason, usage=completion.usage)
        if text := choice.message.content or getattr(choice.message, "refusal", None):
            said.text.append(text)
            on_text(text)
        for index, call in enumerate(choice.message.tool_calls or ()):
            if call.type == "function":
                said.calls[index] = _Call(call.id, call.function.name, call.function.arguments)
        return said

    async def _streamed(self, body: JsonObject, on_text: OnText) -> _Said:
        stream = await self._client.post(
            "/chat/completions",
            body=body,
            cast_to=ChatCompletion,
            stream=True,
            stream_cls=AsyncStream[ChatCompletionChunk],
            options=_OPTIONS,
        )
        said = _Said()
        async with StreamEvents(stream) as events:
            async for chunk in events:
                said.usage = chunk.usage or said.usage
                for choice in chunk.choices:
                    if text := choice.delta.content or getattr(choice.delta, "refusal", None):
                        said.text.append(text)
                        on_text(text)
                    for call in choice.delta.tool_calls or ():
                        said.add_call(call)
                    said.finish_reason = choice.finish_reason or said.finish_reason
        if said.finish_reason is None:
            raise broken_off(self._id)
        return said


def request_body(request: CallModelInput, provider_id: str) -> tuple[JsonObject, ToolPlan]:
    """The request, in the order of the prompt: what changes from step to step or with the mask comes last."""
    can = MATRIX[provider_id]
    definitions = read_definitions(request.definitions_json)
    plan = plan_tools(definitions, request.active_tools, provider_id, can)
    body: JsonObject = {"model": request.model_id}
    if definitions:
        body["tools"] = [_tool(one) for one in definitions]
    # One system message: many servers take no second one.
    system = "\n\n".join(text for text in (request.system, request.dynamic) if text)
    messages: list[JsonValue] = [{"role": "system", "content": system}] if system else []
    body["messages"] = messages + [sent for message in request.messages for sent in _messages(message)]
    if plan.choice == "none":
        body["tool_choice"] = "none"
    body |= {"max_tokens": request.max_output_tokens, "stream": request.stream}
    if request.stream and can.streams_usage == "on_request":
        body["stream_options"] = {"include_usage": True}
    return body, plan


def _tool(definition: Definition) -> JsonObject:
    function: JsonObject = {
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.input_schema,
    }
    return {"type": "function", "function": function}


def _messages(message: ModelMessage) -> list[JsonValue]:
    match message.role:
        case "assistant":
            return _assistant(message)
        case "tool":
            return [
                {"role": "tool", "tool_call_id": part.call_id, "content": part.text}
                for part in message.parts
                if isinstance(part, ToolResultPart)
            ]
        case "user":
            content = _content(message)
            return [{"role": "user", "content": content}] if content else []


def _assistant(message: ModelMessage) -> list[JsonValue]:
    text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    calls: list[JsonValue] = [_call(part) for part in message.parts if isinstance(part, ToolCallPart)]
    if not text and not calls:
        return []
    return [{"role": "assistant", "content": text or None, **({"tool_calls": calls} if calls else {})}]


def _call(part: ToolCallPart) -> JsonObject:
    # Some servers read the arguments of earlier calls, and fail on what is no JSON object.
    as_written = part.arguments is not None and part.raw_arguments
    arguments = as_written or _ARGUMENTS.dump_json(sent_arguments(part)).decode()
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": arguments}}


def _content(message: ModelMessage) -> JsonValue:
    """A text where the message is one, as the simplest servers know it; else a list of parts."""
    if all(isinstance(part, TextPart) for part in message.parts) and len(message.parts) == 1:
        return "".join(part.text for part in message.parts if isinstance(part, TextPart))
    parts: list[JsonValue] = []
    for part in message.parts:
        match part:
            case TextPart(text=text) if text:
                parts.append({"type": "text", "text": text})
            case ImagePart():
                address = part.url or f"data:{part.media_type};base64,{part.data}"
                parts.append({"type": "image_url", "image_url": {"url": address}})
            case _:
                pass
    return parts


def _step(said: _Said, plan: ToolPlan, step: int) -> ModelStep:
    calls = tuple(
        # Some servers leave out the id, by which results are told apart.
        tool_call(call.id or f"call_{step}_{index}", call.name, call.arguments)
        for index, call in sorted(said.calls.items())
    )
    return ModelStep(
        text="".join(said.text),
        tool_calls=calls,
        finish_reason=_finish_reason(said),
        usage=Usage(
            input_tokens=tokens(said.usage, "prompt_tokens"),
            output_tokens=tokens(said.usage, "completion_tokens"),
            cache_read_tokens=tokens(said.usage, "prompt_tokens_details", "cached_tokens"),
            cache_write_tokens=tokens(said.usage, "prompt_tokens_details", "cache_write_tokens"),
        ),
        warnings=plan.warnings,
    )


def _finish_reason(said: _Said) -> Literal["stop", "tool_calls", "length", "content_filter", "other"]:
    match said.finish_reason:
        case "length" | "content_filter":
            return said.finish_reason
        case "stop" | "tool_calls" | "function_call":
            # Some servers say `stop` after calls too.
            return "tool_calls" if said.calls else "stop"
        case _:
            return "tool_calls" if said.calls else "other"
