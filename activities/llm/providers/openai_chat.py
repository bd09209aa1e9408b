"""OpenAI's Chat Completions API, which Z.ai and many other servers implement."""

from collections.abc import Iterator

from pydantic import JsonValue, TypeAdapter

from outlast.activities.contracts import JsonObject
from outlast.activities.conversations import contracts as conversations
from outlast.activities.llm.contracts import CallModelInput, ModelStep, Usage
from outlast.activities.llm.providers import parsing, requests
from outlast.activities.llm.providers.chat_answers import ChatAnswer
from outlast.activities.llm.providers.models import MATRIX
from outlast.activities.llm.providers.streamed_provider import StreamedProvider
from outlast.activities.llm.providers.tool_definitions import Definition, ToolPlan, plan_tools, read_definitions
from outlast.activities.media import PICTURES

_ARGUMENTS = TypeAdapter(dict[str, JsonValue])
_UNSEEN = "[The user sent a picture ({}), which you cannot see.]"
_SHOWN_BELOW = "(The picture follows.)"


class OpenAIChatProvider(StreamedProvider[ChatAnswer]):
    """The provider `zai` or `generic`."""

    path = "/chat/completions"

    def request(self, request: CallModelInput) -> tuple[JsonObject, ToolPlan]:
        """See `StreamedProvider`."""
        return request_body(request, self.id)

    def answer(self, request: CallModelInput, listener: parsing.Listener) -> ChatAnswer:
        """See `StreamedProvider`."""
        tools = {one.name for one in read_definitions(request.definitions_json)}
        return ChatAnswer(listener, step=request.step, tools=tools)

    def step(self, request: CallModelInput, answer: ChatAnswer, plan: ToolPlan) -> ModelStep:
        """See `StreamedProvider`."""
        return ModelStep(
            parts=parsing.without_loose_reasoning(list(_parts(request, answer))),
            finish_reason=answer.finished,
            usage=Usage(
                input_tokens=parsing.tokens(answer.usage, "prompt_tokens"),
                output_tokens=parsing.tokens(answer.usage, "completion_tokens"),
                cache_read_tokens=parsing.tokens(answer.usage, "prompt_tokens_details", "cached_tokens"),
                cache_write_tokens=parsing.tokens(answer.usage, "prompt_tokens_details", "cache_write_tokens"),
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
            content = _content(message, request)
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
        if isinstance(part, conversations.ReasoningPart) and parsing.is_from(part, request):
            sent |= part.block
    return [sent]


def _call(part: conversations.ToolCallPart) -> JsonObject:
    # Some servers parse the arguments of earlier calls, and fail when they are not a JSON object.
    arguments = parsing.as_written(part) if part.arguments is not None else None
    written = arguments or _ARGUMENTS.dump_json(parsing.sent_arguments(part)).decode()
    return {"id": part.id, "type": "function", "function": {"name": part.name, "arguments": written}}


def _content(message: conversations.ModelMessage, request: CallModelInput) -> JsonValue:
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
        yield parsing.tool_call(call.id, call.name, call.arguments)
