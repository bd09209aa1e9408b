"""OpenAI's Responses API: `instructions`, `input` items, and `allowed_tools` for masks."""

import hashlib
from typing import Literal

from openai import AsyncOpenAI, AsyncStream, RequestOptions
from openai.types.responses import (
    Response,
    ResponseFunctionToolCall,
    ResponseOutputItem,
    ResponseReasoningItem,
    ResponseStreamEvent,
)
from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.failures.provider_error import ProviderError
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
from outlast.activities.llm.providers.models import model_of
from outlast.activities.llm.providers.parsing import is_from, tokens, tool_call, without_loose_reasoning
from outlast.activities.llm.providers.provider import Listener
from outlast.activities.llm.providers.schemas import is_strict, loose_schema_warnings
from outlast.activities.llm.providers.sdk_failures import provider_failures, stream_ended_early
from outlast.activities.llm.providers.sdk_streams import StreamEvents
from outlast.activities.llm.providers.tool_choice import ToolPlan, plan_tools
from outlast.activities.llm.providers.tool_definitions import Definition, read_definitions
from outlast.activities.llm.providers.tool_media import PDF, SHOWN, data_url, result_content, shown_to

_ID = "openai"
_OPTIONS: RequestOptions = {"security": {"bearer_auth": True}}
_INCOMPLETE: dict[str | None, Literal["length", "content_filter"]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}


class OpenAIResponsesProvider:
    """A `Provider`. The client's own retries are off: Temporal retries."""

    def __init__(self, client: AsyncOpenAI) -> None:
        """Take a client with the key, the address and the time limits."""
        self._client = client.with_options(max_retries=0)

    async def call(self, request: CallModelInput, listener: Listener) -> ModelStep:
        """See `Provider`."""
        body, plan = request_body(request)
        with provider_failures(_ID, self._client.api_key):
            response = await self._streamed(body, listener)
        return _step(request, response, plan)

    async def close(self) -> None:
        """See `Provider`."""
        await self._client.close()

    async def _streamed(self, body: JsonObject, listener: Listener) -> Response:
        stream = await self._client.post(
            "/responses",
            body=body,
            cast_to=Response,
            stream=True,
            stream_cls=AsyncStream[ResponseStreamEvent],
            options=_OPTIONS,
        )
        calls: dict[int, ResponseFunctionToolCall] = {}
        async with StreamEvents(stream) as events:
            async for event in events:
                match event.type:
                    case "response.output_text.delta" | "response.refusal.delta":
                        listener.text(event.delta)
                    case "response.output_item.added" if event.item.type == "function_call":
                        calls[event.output_index] = event.item
                    case "response.function_call_arguments.delta" if event.output_index in calls:
                        call = calls[event.output_index]
                        listener.arguments(call.call_id, call.name, event.delta)
                    case "response.completed" | "response.incomplete" | "response.failed":
                        return event.response
                    case "error":
                        raise ProviderError(_ID, event.message, kinds=(event.code,) if event.code else ())
                    case _:
                        pass  # The last event contains the whole response.
        raise stream_ended_early(_ID)


def request_body(request: CallModelInput) -> tuple[JsonObject, ToolPlan]:
    """The request, in the order of the prompt: what changes from step to step or with the mask comes last."""
    definitions = read_definitions(request.definitions_json)
    plan = plan_tools(definitions, request.active_tools, _ID, MATRIX[_ID])
    body: JsonObject = {"model": request.model_id}
    if definitions:
        body["tools"] = [_tool(one) for one in definitions]
    if request.system:
        body["instructions"] = request.system
    items: list[JsonValue] = []
    if request.dynamic:
        items.append({"role": "developer", "content": [{"type": "input_text", "text": request.dynamic}]})
    body["input"] = items + [item for message in request.messages for item in _items(message, request)]
    if plan.choice == "none":
        body["tool_choice"] = "none"
    elif plan.choice == "some":
        allowed: list[JsonValue] = [{"type": "function", "name": name} for name in plan.allowed]
        body["tool_choice"] = {"type": "allowed_tools", "mode": "auto", "tools": allowed}
    body |= {
        "max_output_tokens": request.max_output_tokens,
        "prompt_cache_key": _cache_key(request),
        "store": False,
        "stream": True,
        **_controls(request),
    }
    return with_extra(_ID, body, request.extra), plan


def _controls(request: CallModelInput) -> JsonObject:
    controls, fields = request.controls, JsonObject()
    if controls.temperature is not None:
        fields["temperature"] = controls.temperature
    if controls.effort is not None:
        fields["reasoning"] = {"effort": controls.effort}
    if _reasons(request):
        # Nothing is stored at the provider, so what the model has reasoned comes back to it in the next request.
        fields["include"] = ["reasoning.encrypted_content"]
    if controls.output_schema is not None:
        schema = controls.output_schema
        strict = is_strict(schema)
        fields["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}}
    return fields


def _reasons(request: CallModelInput) -> bool:
    known = model_of(_ID, request.model_id).reasons
    return request.controls.effort not in (None, "none") if known is None else known


def _cache_key(request: CallModelInput) -> str:
    """A key that routes the requests of one session to the same cache: at most 64 characters, without a name."""
    return hashlib.sha256(f"{request.caller.id}\0{request.session_id}".encode()).hexdigest()[:32]


def _tool(definition: Definition) -> JsonObject:
    """The tool's definition. Not strict: strict schemas support neither optional fields nor defaults."""
    return {
        "type": "function",
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.input_schema,
        "strict": False,
    }


def _items(message: ModelMessage, request: CallModelInput) -> list[JsonValue]:
    """The items of a message in their order: texts and images that follow each other are one; the rest is one each."""
    items: list[JsonValue] = []
    together: list[JsonValue] = []
    for part in message.parts:
        content = _content(part, message.role)
        if content is not None:
            if not together:
                items.append({"role": "assistant" if message.role == "assistant" else "user", "content": together})
            together.append(content)
            continue
        together = []
        match part:
            case ReasoningPart() if is_from(part, request):
                items.append(part.block)
            case ToolCallPart():
                arguments = part.raw_arguments or "{}"
                items.append({"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments})
            case ToolResultPart():
                items.append(
                    {"type": "function_call_output", "call_id": part.call_id, "output": _output(part, request)}
                )
            case _:
                pass
    return items


def _output(part: ToolResultPart, request: CallModelInput) -> JsonValue:
    """A text; with media, a list of items."""
    text, media = result_content(part, shown_to(request, SHOWN))
    if not media:
        return text
    items: list[JsonValue] = [{"type": "input_text", "text": text}] if text else []
    return items + [_media(one) for one in media]


def _media(media: MediaPart) -> JsonObject:
    if media.media_type == PDF:
        return {"type": "input_file", "filename": "document.pdf", "file_data": data_url(media)}
    return {"type": "input_image", "image_url": data_url(media), "detail": "auto"}


def _content(part: Part, role: str) -> JsonObject | None:
    match part:
        case TextPart(text=text) if text:
            return {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        case ImagePart():
            address = part.url or f"data:{part.media_type};base64,{part.data}"
            return {"type": "input_image", "image_url": address, "detail": "auto"}
        case _:
            return None


def _parts(request: CallModelInput, item: ResponseOutputItem) -> list[AnswerPart]:
    match item.type:
        case "message":
            texts = (part.text if part.type == "output_text" else part.refusal for part in item.content)
            return [TextPart(text=text) for text in texts if text]
        case "function_call":
            return [tool_call(item.call_id, item.name, item.arguments)]
        case "reasoning" if item.encrypted_content:
            return [_reasoning(request, item)]
        case _:
            return []


def _reasoning(request: CallModelInput, item: ResponseReasoningItem) -> ReasoningPart:
    text = "\n\n".join(summary.text for summary in item.summary)
    block = item.model_dump(mode="json", include={"type", "id", "summary", "encrypted_content"})
    return ReasoningPart(provider_id=_ID, model_id=request.model_id, text=text, block=block)


def _step(request: CallModelInput, response: Response, plan: ToolPlan) -> ModelStep:
    if response.status == "failed":
        raise _failed(response)
    parts = without_loose_reasoning([part for item in response.output for part in _parts(request, item)])
    return ModelStep(
        parts=parts,
        finish_reason=_finish_reason(response, has_calls=any(isinstance(part, ToolCallPart) for part in parts)),
        usage=Usage(
            input_tokens=tokens(response.usage, "input_tokens"),
            output_tokens=tokens(response.usage, "output_tokens"),
            cache_read_tokens=tokens(response.usage, "input_tokens_details", "cached_tokens"),
            cache_write_tokens=tokens(response.usage, "input_tokens_details", "cache_write_tokens"),
        ),
        warnings=(*plan.warnings, *loose_schema_warnings(_ID, request.controls.output_schema)),
    )


def _failed(response: Response) -> ProviderError:
    if response.error is None:
        return ProviderError(_ID, "the response failed")
    return ProviderError(_ID, response.error.message, kinds=(response.error.code,))


def _finish_reason(
    response: Response, *, has_calls: bool
) -> Literal["stop", "tool_calls", "length", "content_filter", "other"]:
    if response.status == "incomplete":
        reason = response.incomplete_details.reason if response.incomplete_details else None
        return _INCOMPLETE.get(reason, "other")
    return "tool_calls" if has_calls else "stop"
