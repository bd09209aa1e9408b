"""OpenAI's Responses API: `instructions`, `input` items, and `allowed_tools` for masks."""

import hashlib
import json
from collections.abc import Iterator
from typing import Literal

from openai import AsyncOpenAI
from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.conversations import contracts as conversations
from outlast.activities.llm.contracts import CallModelInput, ModelStep, Usage
from outlast.activities.llm.providers import answers, requests
from outlast.activities.llm.providers.models import MATRIX, model_of
from outlast.activities.llm.providers.requests import Definition, ToolPlan, plan_tools, read_definitions
from outlast.activities.llm.providers.streamed_provider import StreamedProvider, reported_error
from outlast.activities.media import PDF
from outlast.activities.unicode_text import valid_json, valid_text

_ID = "openai"
_INCOMPLETE: dict[str | None, Literal["length", "content_filter"]] = {
    "max_output_tokens": "length",
    "content_filter": "content_filter",
}


class _Answer:
    """The answer received so far. The last event contains the whole response; its pieces go to a listener before."""

    def __init__(self, listener: answers.Listener) -> None:
        self._listener = listener
        self._calls: dict[int | None, tuple[str, str]] = {}
        self._pieces: dict[int | str | None, answers.StreamedText] = {}
        self._begun: set[int | None] = set()
        self._items: dict[int | None, JsonValue] = {}
        self.response: JsonObject = {}
        self.is_whole = False
        self.error: JsonValue = None

    def add(self, event: JsonObject) -> bool:
        index = answers.index_of(event.get("output_index"))
        match event:
            case {"type": "response.output_text.delta" | "response.refusal.delta", "delta": str(delta)}:
                place = json.dumps([event.get("output_index"), event.get("content_index")])
                if text := self._pieces.setdefault(place, answers.StreamedText()).feed(delta):
                    self._listener.text(text)
            case {"type": "response.output_item.added", "item": dict(item)}:
                self._begun.add(index)
                if item.get("type") == "function_call":
                    self._calls[index] = answers.text_of(item.get("call_id")), answers.text_of(item.get("name"))
            case {"type": "response.output_item.done", "item": dict(item)}:
                self._items[index] = item
            case {"type": "response.function_call_arguments.delta", "delta": str(delta)} if index in self._calls:
                if text := self._pieces.setdefault(index, answers.StreamedText()).feed(delta):
                    self._listener.arguments(*self._calls[index], text)
            case {"type": "response.completed" | "response.incomplete" | "response.failed", "response": dict(whole)}:
                self.response, self.is_whole = whole, True
            case {"object": "response", "output": list()}:
                # The whole answer: the server does not stream.
                self.response, self.is_whole = event, True
            case _:
                pass
        return self.is_whole

    def end(self, *, is_done: bool) -> bool:  # noqa: ARG002 (servers may leave the mark out)
        """Complete the response: some gateways leave its items, or the whole last event, out."""
        output = list(self._items.values())
        if not self.is_whole:
            kinds = {answers.text_of(item.get("type")) for item in output if isinstance(item, dict)}
            self.response = {"status": "completed", "output": output}
            return not self._begun - self._items.keys() and not kinds <= {"reasoning"}
        if not self.response.get("output"):
            self.response = {**self.response, "output": output}
        return True


class OpenAIResponsesProvider(StreamedProvider[_Answer]):
    """The provider `openai`."""

    path = "/responses"

    def __init__(self, client: AsyncOpenAI) -> None:
        super().__init__(_ID, client)

    def request(self, request: CallModelInput) -> tuple[JsonObject, ToolPlan]:
        """See `StreamedProvider`."""
        return request_body(request)

    def answer(self, request: CallModelInput, listener: answers.Listener) -> _Answer:  # noqa: ARG002 (other providers use it)
        """See `StreamedProvider`."""
        return _Answer(listener)

    def step(self, request: CallModelInput, answer: _Answer, plan: ToolPlan) -> ModelStep:
        """See `StreamedProvider`."""
        response = answer.response
        if response.get("status") == "failed":
            raise reported_error(_ID, response.get("error") or "the response failed")
        parts = answers.without_loose_reasoning(list(_parts(request, response.get("output"))))
        usage = response.get("usage")
        return ModelStep(
            parts=parts,
            finish_reason=_finish_reason(
                response, has_calls=any(isinstance(part, conversations.ToolCallPart) for part in parts)
            ),
            usage=Usage(
                input_tokens=answers.tokens(usage, "input_tokens"),
                output_tokens=answers.tokens(usage, "output_tokens"),
                cache_read_tokens=answers.tokens(usage, "input_tokens_details", "cached_tokens"),
                cache_write_tokens=answers.tokens(usage, "input_tokens_details", "cache_write_tokens"),
            ),
            warnings=(*plan.warnings, *requests.loose_schema_warnings(_ID, request.controls.output_schema)),
        )


def request_body(request: CallModelInput) -> tuple[JsonObject, ToolPlan]:
    """Return the request, in the order of the prompt: what changes from step to step or with the mask comes last."""
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
    session = f"{request.caller.id}\0{request.session_id}"
    body |= {
        "max_output_tokens": request.max_output_tokens,
        # Routes the requests of one session to the same cache: at most 64 characters, without a name.
        "prompt_cache_key": hashlib.sha256(session.encode()).hexdigest()[:32],
        "store": False,
        "stream": True,
        **_controls(request),
    }
    return requests.with_extra(_ID, body, request.extra), plan


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
        strict = requests.is_strict(schema)
        fields["text"] = {"format": {"type": "json_schema", "name": "answer", "schema": schema, "strict": strict}}
    return fields


def _reasons(request: CallModelInput) -> bool:
    known = model_of(_ID, request.model_id).reasons
    return request.controls.effort not in (None, "none") if known is None else known


def _tool(definition: Definition) -> JsonObject:
    """Return the tool's definition. Not strict: strict schemas support neither optional fields nor defaults."""
    return {
        "type": "function",
        "name": definition.name,
        "description": definition.description,
        "parameters": definition.input_schema,
        "strict": False,
    }


def _items(message: conversations.ModelMessage, request: CallModelInput) -> list[JsonValue]:
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
            case conversations.ReasoningPart() if answers.is_from(part, request):
                items.append(part.block)
            case conversations.ToolCallPart():
                arguments = answers.as_written(part) or json.dumps(part.arguments or {}, ensure_ascii=False)
                items.append({"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments})
            case conversations.ToolResultPart():
                output = _output(part, request)
                items.append({"type": "function_call_output", "call_id": part.call_id, "output": output})
            case _:
                pass
    return items


def _output(part: conversations.ToolResultPart, request: CallModelInput) -> JsonValue:
    """Return a text; with media, a list of items."""
    text, media = requests.result_content(part, requests.shown_to(request, requests.SHOWN))
    if not media:
        return text
    items: list[JsonValue] = [{"type": "input_text", "text": text}] if text else []
    return items + [_media(one) for one in media]


def _media(media: conversations.MediaPart) -> JsonObject:
    if media.media_type == PDF:
        return {"type": "input_file", "filename": "document.pdf", "file_data": requests.data_url(media)}
    return {"type": "input_image", "image_url": requests.data_url(media), "detail": "auto"}


def _content(part: conversations.Part, role: str) -> JsonObject | None:
    match part:
        case conversations.TextPart(text=text) if text:
            return {"type": "output_text" if role == "assistant" else "input_text", "text": text}
        case conversations.ImagePart():
            shown = requests.users_picture(part)
            if isinstance(shown, str):
                return {"type": "input_text", "text": shown}
            return {"type": "input_image", "image_url": requests.picture_address(shown), "detail": "auto"}
        case _:
            return None


def _parts(request: CallModelInput, output: JsonValue) -> Iterator[conversations.AnswerPart]:
    used: set[str] = set()
    for item in output if isinstance(output, list) else []:
        match item:
            case {"type": "message", "content": list(content)}:
                texts = (valid_text(_text(part)) for part in content if isinstance(part, dict))
                yield from (conversations.TextPart(text=text) for text in texts if text)
            case {"type": "function_call", "name": str(name)}:
                own_id = answers.call_id(item.get("call_id"), used, request.step)
                used.add(own_id)
                arguments = item.get("arguments")
                given = arguments if isinstance(arguments, str) or arguments is None else json.dumps(arguments)
                yield answers.tool_call(own_id, name, given or "")
            case {"type": "reasoning", "encrypted_content": str(content)} if content:
                yield _reasoning(request, valid_json(item))
            case _:
                pass


def _text(part: JsonObject) -> str:
    return answers.text_of(part.get("text") if part.get("type") == "output_text" else part.get("refusal"))


def _reasoning(request: CallModelInput, item: JsonObject) -> conversations.ReasoningPart:
    summary = item.get("summary")
    parts = [part for part in summary if isinstance(part, dict)] if isinstance(summary, list) else []
    text = "\n\n".join(answers.text_of(part.get("text")) for part in parts)
    block: JsonObject = {name: item[name] for name in ("type", "id", "summary", "encrypted_content") if name in item}
    return conversations.ReasoningPart(provider_id=_ID, model_id=request.model_id, text=text, block=block)


def _finish_reason(
    response: JsonObject, *, has_calls: bool
) -> Literal["stop", "tool_calls", "length", "content_filter", "other"]:
    if response.get("status") == "incomplete":
        details = response.get("incomplete_details")
        reason = answers.text_of(details.get("reason")) if isinstance(details, dict) else None
        return _INCOMPLETE.get(reason, "other")
    return "tool_calls" if has_calls else "stop"
