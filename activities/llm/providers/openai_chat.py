"""OpenAI's Chat Completions API, which Z.ai and many other servers implement."""

from collections.abc import Iterator

import httpx2
from openai import AsyncOpenAI, RequestOptions
from pydantic import JsonValue, TypeAdapter

from outlast.activities.contracts import JsonObject
from outlast.activities.conversations.contracts import (
    AnswerPart,
    ImagePart,
    MediaPart,
    ModelMessage,
    ReasoningPart,
    TextPart,
    ToolCallPart,
    ToolResultPart,
)
from outlast.activities.llm.contracts import CallModelInput, ModelStep, Usage
from outlast.activities.llm.providers.chat_answers import ChatAnswer
from outlast.activities.llm.providers.failures import (
    error_in,
    provider_failures,
    reported_error,
    stream_ended_early,
)
from outlast.activities.llm.providers.models import MATRIX
from outlast.activities.llm.providers.parsing import (
    Listener,
    as_written,
    is_from,
    sent_arguments,
    tokens,
    tool_call,
    without_loose_reasoning,
)
from outlast.activities.llm.providers.requests import (
    data_url,
    is_strict,
    loose_schema_warnings,
    picture_address,
    result_content,
    shown_to,
    users_picture,
    with_extra,
)
from outlast.activities.llm.providers.stream_events import StreamEvents
from outlast.activities.llm.providers.tool_definitions import Definition, ToolPlan, plan_tools, read_definitions
from outlast.activities.media import PICTURES

_ARGUMENTS = TypeAdapter(dict[str, JsonValue])
_UNSEEN = "[The user sent a picture ({}), which you cannot see.]"
_SHOWN_BELOW = "(The picture follows.)"
_OPTIONS: RequestOptions = {"security": {"bearer_auth": True}}


class OpenAIChatProvider:
    """A `Provider`. The client's own retries are off: Temporal retries."""

    def __init__(self, provider_id: str, client: AsyncOpenAI) -> None:
        """Take a client with the key, the address and the time limits."""
        self._id = provider_id
        self._client = client.with_options(max_retries=0)

    async def call(self, request: CallModelInput, listener: Listener) -> ModelStep:
        """See `Provider`."""
        body, plan = request_body(request, self._id)
        with provider_failures(self._id, self._client.api_key):
            answer = await self._streamed(request, body, listener)
        return _step(request, answer, plan)

    async def close(self) -> None:
        """See `Provider`."""
        await self._client.close()

    async def _streamed(self, request: CallModelInput, body: JsonObject, listener: Listener) -> ChatAnswer:
        # The response itself: the library's own reader gives up on what many servers send.
        response = await self._client.post(
            "/chat/completions", body=body, cast_to=httpx2.Response, stream=True, options=_OPTIONS
        )
        tools = {one.name for one in read_definitions(request.definitions_json)}
        answer = ChatAnswer(listener, step=request.step, tools=tools)
        async with StreamEvents(response) as events:
            async for event in events:
                is_whole = answer.finish_reason is not None
                answer.add(event)
                error = error_in(event) or answer.error
                if error is not None and not is_whole:
                    raise reported_error(self._id, error)
                if answer.finish_reason is not None:
                    # The answer is whole, and paid for: token counts may follow, and no failure counts.
                    events.settle()
        answer.end()
        is_marked = answer.finish_reason is not None or (events.is_done and answer.has_begun)
        if not is_marked and answer.is_open:
            raise stream_ended_early(self._id)
        if answer.finish_reason is None and events.is_done:
            answer.finish_reason = "stop"
        return answer


def request_body(request: CallModelInput, provider_id: str) -> tuple[JsonObject, ToolPlan]:
    """The request, in the order of the prompt: what changes from step to step or with the mask comes last."""
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
    return with_extra(provider_id, {**body, **_controls(request, provider_id)}, request.extra), plan


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
        named: JsonObject = {"name": "answer", "schema": schema, "strict": is_strict(schema)}
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


def _messages(message: ModelMessage, request: CallModelInput) -> list[JsonValue]:
    match message.role:
        case "assistant":
            return _assistant(message, request)
        case "tool":
            return _results(message, request)
        case "user":
            content = _content(message, request)
            return [{"role": "user", "content": content}] if content else []


def _results(message: ModelMessage, request: CallModelInput) -> list[JsonValue]:
    """The results of a step's calls. They hold text only, so pictures follow in a message of the user."""
    results: list[JsonValue] = []
    pictures: list[JsonValue] = []
    for part in message.parts:
        if not isinstance(part, ToolResultPart):
            continue
        text, media = result_content(part, shown_to(request, PICTURES))
        results.append(
            {"role": "tool", "tool_call_id": part.call_id, "content": text or (_SHOWN_BELOW if media else "")}
        )
        if media:
            label = f"Not from the user: what the call {part.call_id} of {part.name} has shown."
            pictures.append({"type": "text", "text": label})
            pictures.extend(_picture(one) for one in media)
    return [*results, {"role": "user", "content": pictures}] if pictures else results


def _picture(media: MediaPart) -> JsonObject:
    return {"type": "image_url", "image_url": {"url": data_url(media)}}


def _assistant(message: ModelMessage, request: CallModelInput) -> list[JsonValue]:
    text = "".join(part.text for part in message.parts if isinstance(part, TextPart))
    calls: list[JsonValue] = [_call(part) for part in message.parts if isinstance(part, ToolCallPart)]
    if not text and not calls:
        return []
    sent: JsonObject = {"role": "assistant", "content": text or None}
    if calls:
        sent["tool_calls"] = calls
    for part in message.parts:
        if isinstance(part, ReasoningPart) and is_from(part, request):
            sent |= part.block
    return [sent]


def _call(part: ToolCallPart) -> JsonObject:
    # Some servers parse the arguments of earlier calls, and fail when they are not a JSON object.
    arguments = as_written(part) if part.arguments is not None else None
    written = arguments or _ARGUMENTS.dump_json(sent_arguments(part)).decode()
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": written}}


def _content(message: ModelMessage, request: CallModelInput) -> JsonValue:
    """A string for a message with one text, which all servers accept; else a list of parts."""
    if all(isinstance(part, TextPart) for part in message.parts) and len(message.parts) == 1:
        return "".join(part.text for part in message.parts if isinstance(part, TextPart))
    parts: list[JsonValue] = []
    for part in message.parts:
        match part:
            case TextPart(text=text) if text:
                parts.append({"type": "text", "text": text})
            case ImagePart() if request.sees_pictures is False:
                parts.append({"type": "text", "text": _UNSEEN.format(part.media_type)})
            case ImagePart():
                parts.append(_users_picture(part))
            case _:
                pass
    return parts


def _users_picture(part: ImagePart) -> JsonObject:
    shown = users_picture(part)
    if isinstance(shown, str):
        return {"type": "text", "text": shown}
    return {"type": "image_url", "image_url": {"url": picture_address(shown)}}


def _step(request: CallModelInput, answer: ChatAnswer, plan: ToolPlan) -> ModelStep:
    provider_id = request.provider_id
    return ModelStep(
        parts=without_loose_reasoning(list(_parts(request, answer))),
        finish_reason=answer.finished,
        usage=Usage(
            input_tokens=tokens(answer.usage, "prompt_tokens"),
            output_tokens=tokens(answer.usage, "completion_tokens"),
            cache_read_tokens=tokens(answer.usage, "prompt_tokens_details", "cached_tokens"),
            cache_write_tokens=tokens(answer.usage, "prompt_tokens_details", "cache_write_tokens"),
        ),
        warnings=(*plan.warnings, *loose_schema_warnings(provider_id, request.controls.output_schema)),
    )


def _parts(request: CallModelInput, answer: ChatAnswer) -> Iterator[AnswerPart]:
    if answer.reasoning and MATRIX[request.provider_id].keeps_reasoning:
        block: JsonObject = {"reasoning_content": answer.reasoning}
        yield ReasoningPart(
            provider_id=request.provider_id, model_id=request.model_id, text=answer.reasoning, block=block
        )
    if answer.text:
        yield TextPart(text=answer.text)
    for call in answer.calls:
        yield tool_call(call.id, call.name, call.arguments)
