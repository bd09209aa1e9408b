"""What providers refuse. Names of fields are those of the official libraries' types.

Sources: OpenAI's and Anthropic's API references, and the texts with which they really answer.
"""

import base64
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import filetype  # pyright: ignore[reportMissingTypeStubs]
from anthropic.types import (
    DocumentBlockParam,
    ImageBlockParam,
    RedactedThinkingBlockParam,
    TextBlockParam,
    ThinkingBlockParam,
    ToolChoiceAutoParam,
    ToolChoiceNoneParam,
    ToolParam,
    ToolResultBlockParam,
    ToolUseBlockParam,
)
from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
from openai.types.chat.completion_create_params import CompletionCreateParamsNonStreaming
from openai.types.responses import FunctionToolParam, ResponseReasoningItemParam
from openai.types.responses.response_create_params import ResponseCreateParamsNonStreaming


def seal(model: str, text: str) -> str:
    """What only this provider can read, and only for this model."""
    return base64.b64encode(f"{model}\0{text}".encode()).decode()


def sealed_for(model: str, sealed: str) -> bool:
    """Whether `seal` made it for this model."""
    try:
        return base64.b64decode(sealed, validate=True).startswith(f"{model}\0".encode())
    except ValueError:
        return False


_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_FIELD = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_AT_THE_TOP = {"oneOf", "anyOf", "allOf", "not", "enum"}
_BLOCKS = {
    "text": TextBlockParam,
    "document": DocumentBlockParam,
    "image": ImageBlockParam,
    "thinking": ThinkingBlockParam,
    "redacted_thinking": RedactedThinkingBlockParam,
    "tool_use": ToolUseBlockParam,
    "tool_result": ToolResultBlockParam,
}
_CHAT_MESSAGE = {
    "system": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": {"role", "content", "name", "tool_calls", "refusal"},
    "tool": {"role", "content", "tool_call_id"},
}
_PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
_SHOWN_OUTPUTS = {"input_text", "input_image", "input_file"}
_MOST_BREAKPOINTS = 4


class Refused(Exception):
    """An answer with a status of 400 and more."""

    def __init__(self, message: str, status: int = 400, kind: str = "invalid_request_error") -> None:
        super().__init__(message)
        self.message, self.status, self.kind = message, status, kind


def check(protocol: str, body: Mapping[str, Any], headers: Mapping[str, str], path: str = "") -> None:
    """Raise `Refused` for a request that the provider would refuse."""
    match protocol:
        case "responses":
            _authorized(headers.get("authorization", "").removeprefix("Bearer "))
            _responses(body)
        case "chat":
            _authorized(headers.get("authorization", "").removeprefix("Bearer "))
            _chat(body, is_zai="/zai/" in path)
        case _:
            # The library sends a bearer token, older ones and other clients the header of its own.
            _authorized(headers.get("x-api-key") or headers.get("authorization", "").removeprefix("Bearer "))
            if "anthropic-version" not in headers:
                raise Refused("anthropic-version: header is required")
            _messages(body)


def _authorized(key: str) -> None:
    if not key or "wrong" in key:
        raise Refused(f"Incorrect API key provided: {key}.", 401, "authentication_error")


def _known(where: str, given: Iterable[str], known: Iterable[str]) -> None:
    if unknown := set(given) - set(known):
        raise Refused(f"{where}: Unknown parameter: {', '.join(sorted(unknown))}.")


def _required(body: Mapping[str, Any], *names: str) -> None:
    if missing := [name for name in names if name not in body]:
        raise Refused(f"Missing required parameter: {', '.join(missing)}.")


def _tool(name: str, schema: Mapping[str, Any]) -> None:
    if not _NAME.fullmatch(name):
        raise Refused(f"Invalid tool name {name!r}.")
    if schema.get("type") != "object" or _AT_THE_TOP & schema.keys():
        raise Refused(f"Invalid schema for function {name!r}.")
    if not all(_FIELD.fullmatch(field) for field in schema.get("properties", {})):
        raise Refused(f"Property keys of {name!r} should match pattern '{_FIELD.pattern}'.")


def _tools(body: Mapping[str, Any], names: Sequence[str]) -> None:
    if "tools" in body and not body["tools"]:
        raise Refused("[] is too short - 'tools'")
    if len(set(names)) != len(names):
        raise Refused("tools: Tool names must be unique.")
    if "tool_choice" in body and not names:
        raise Refused("Tool choice is only allowed when tools are specified.")


def _responses(body: Mapping[str, Any]) -> None:
    _known("request", body, _all_fields(ResponseCreateParamsNonStreaming))
    _required(body, "model", "input")
    tools = body.get("tools", [])
    for tool in tools:
        _known(f"tools.{tool.get('name')}", tool, _all_fields(FunctionToolParam))
        _required(tool, "type", "name", "parameters", "strict")
        _tool(tool["name"], tool["parameters"])
    names = [tool["name"] for tool in tools]
    _tools(body, names)
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice["type"] == "allowed_tools":
        _known("tool_choice", choice, {"type", "mode", "tools"})
        allowed = [tool["name"] for tool in choice["tools"]]
        if not allowed or set(allowed) - set(names):
            raise Refused(f"Tool choice names tools that are not defined: {sorted(set(allowed) - set(names))}.")
    _schema(body.get("text", {}).get("format", {}))
    items = input_items(body)
    _call_ids([item["call_id"] for item in items if item.get("type") == "function_call"], r".{1,64}")
    _responses_items(items, body["model"])


def input_items(body: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The input of a Responses request: a plain text is a message of the user."""
    given = body["input"]
    return [{"role": "user", "content": given}] if isinstance(given, str) else given


def _all_fields(kind: Any) -> set[str]:
    """The fields of a TypedDict and of those that it extends."""
    return set(kind.__required_keys__) | set(kind.__optional_keys__)


def _schema(form: Mapping[str, Any]) -> None:
    """Strict schemas are closed: every property is required, and there are no others."""
    schema = form.get("schema", {})
    if form.get("strict") and (schema.get("additionalProperties") is not False):
        raise Refused("Invalid schema for response_format: 'additionalProperties' is required to be false.")
    if form.get("strict") and set(schema.get("required", [])) != set(schema.get("properties", {})):
        raise Refused("Invalid schema for response_format: 'required' is required to include every property.")


def _responses_items(items: Sequence[Mapping[str, Any]], model: str) -> None:
    open_calls: dict[str, None] = {}
    called: set[str] = set()
    for index, item in enumerate(items):
        match item.get("type", "message"):
            case "reasoning":
                _reasoning(item, items[index + 1] if index + 1 < len(items) else {}, model)
            case "function_call":
                _known("input", item, {"type", "id", "call_id", "name", "arguments", "status"})
                _called_name(item["name"])
                open_calls[item["call_id"]] = None
                called.add(item["call_id"])
            case "function_call_output":
                _known("input", item, {"type", "id", "call_id", "output", "status"})
                _all_of([] if isinstance(item["output"], str) else item["output"], _SHOWN_OUTPUTS)
                if item["call_id"] not in called:
                    raise Refused(f"No tool call found for function call output with call_id {item['call_id']}.")
                open_calls.pop(item["call_id"], None)
            case "message":
                _known("input", item, {"type", "role", "content", "id", "status"})
                kinds = {"output_text", "refusal"} if item["role"] == "assistant" else {"input_text", "input_image"}
                _all_of([] if isinstance(item["content"], str) else item["content"], kinds)
            case other:
                raise Refused(f"Invalid value: '{other}'.")
    if open_calls:
        raise Refused(f"No tool output found for function call {next(iter(open_calls))}.")


def _media(where: str, media_type: str, data: str, known: frozenset[str] = _PICTURES) -> None:
    """Refuse media whose bytes are not what their type says, as every provider does."""
    try:
        content = base64.b64decode(data, validate=True)
    except ValueError:
        raise Refused(f"{where}: Invalid base64 data") from None
    if media_type not in known:
        raise Refused(f"{where}: unsupported media type {media_type}")
    if filetype.guess_mime(content) != media_type:
        raise Refused(f"{where}: The image was specified using the {media_type} media type, but does not appear to be")


def _data_url(where: str, url: str, known: frozenset[str] = _PICTURES) -> None:
    if url.startswith("data:"):
        head, _, data = url.removeprefix("data:").partition(",")
        media_type, _, encoding = head.partition(";")
        if encoding != "base64":
            raise Refused(f"{where}: Invalid data URL")
        _media(where, media_type, data, known)


def _all_of(parts: Sequence[Mapping[str, Any]], kinds: set[str]) -> None:
    for part in parts:
        if part["type"] not in kinds:
            raise Refused(f"Invalid value: '{part['type']}'. Supported values are: {sorted(kinds)}.")
        if part["type"] == "input_image":
            _data_url("input_image", part["image_url"])
        if part["type"] == "input_file":
            _data_url("input_file", part["file_data"], frozenset({"application/pdf"}))


def _reasoning(item: Mapping[str, Any], following: Mapping[str, Any], model: str) -> None:
    """Reasoning comes back encrypted, before what followed it, and to the model whose it was."""
    _known("input", item, _all_fields(ResponseReasoningItemParam))
    if not sealed_for(model, item["encrypted_content"]):
        raise Refused(f"The encrypted content of item {item['id']} could not be verified.")
    if following.get("type") not in {"function_call", "reasoning"} and following.get("role") != "assistant":
        raise Refused(f"Item '{item['id']}' of type 'reasoning' was provided without its required following item.")


def _chat(body: Mapping[str, Any], *, is_zai: bool) -> None:
    known = _all_fields(CompletionCreateParamsNonStreaming)
    _known("request", body, (known | {"thinking"}) - {"seed", "stream_options"} if is_zai else known)
    if is_zai and body.get("response_format", {}).get("type") == "json_schema":
        raise Refused("response_format: 'json_schema' is not supported.")
    _schema(body.get("response_format", {}).get("json_schema", {}))
    _required(body, "model", "messages")
    tools = body.get("tools", [])
    for tool in tools:
        _known("tools", tool, {"type", "function"})
        _known("tools", tool["function"], {"name", "description", "parameters", "strict"})
        _tool(tool["function"]["name"], tool["function"]["parameters"])
    _tools(body, [tool["function"]["name"] for tool in tools])
    if "stream_options" in body and not body.get("stream"):
        raise Refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    called = [call for message in body["messages"] for call in message.get("tool_calls", [])]
    _call_ids([call["id"] for call in called], r".{1,40}")
    for call in called:
        _called_name(call["function"]["name"])
    waiting: set[str] = set()
    for message in body["messages"]:
        own = {"reasoning_content"} if is_zai and message["role"] == "assistant" else set[str]()
        _known("messages", message, _CHAT_MESSAGE[message["role"]] | own)
        if message["role"] == "tool":
            if not isinstance(message["content"], str):
                raise Refused("Invalid type for 'content': tool messages hold text.")
            if message["tool_call_id"] not in waiting:
                raise Refused("messages with role 'tool' must be a response to a preceeding message with 'tool_calls'.")
            waiting.discard(message["tool_call_id"])
            continue
        _all_answered(waiting)
        _chat_pictures(message.get("content"))
        waiting = {call["id"] for call in message.get("tool_calls", [])}
        if message["role"] == "assistant" and not waiting and not message["content"]:
            raise Refused("Invalid value for 'content': expected a string, got null.")
    _all_answered(waiting)


def _chat_pictures(content: Any) -> None:
    for part in content if isinstance(content, list) else ():
        if part["type"] == "image_url":
            _data_url("image_url", part["image_url"]["url"])


def _called_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise Refused(f"Invalid name of a called tool: {name!r} should match pattern '{_NAME.pattern}'.")


def _call_ids(ids: Sequence[str], pattern: str) -> None:
    if broken := [one for one in ids if not re.fullmatch(pattern, one)]:
        raise Refused(f"Invalid id of a tool call: {broken[0]!r} should match pattern '^{pattern}$'.")
    if len(set(ids)) != len(ids):
        raise Refused("Ids of tool calls must be unique.")


def _all_answered(waiting: set[str]) -> None:
    if waiting:
        raise Refused(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(sorted(waiting))}"
        )


def _messages(body: Mapping[str, Any]) -> None:
    _known("request", body, _all_fields(MessageCreateParamsNonStreaming) - {"workspace_id", "user_profile_id"})
    _required(body, "model", "messages", "max_tokens")
    tools = body.get("tools", [])
    for tool in tools:
        _known(f"tools.{tool['name']}", tool, _all_fields(ToolParam))
        _tool(tool["name"], tool["input_schema"])
    _tools(body, [tool["name"] for tool in tools])
    if choice := body.get("tool_choice"):
        _known("tool_choice", choice, _all_fields(ToolChoiceAutoParam) | _all_fields(ToolChoiceNoneParam) | {"name"})
    if not body["messages"]:
        raise Refused("messages: at least one message is required")
    turns = merged_turns(body["messages"])
    called = [one for _, blocks in turns for one in blocks if one["type"] == "tool_use"]
    _call_ids([one["id"] for one in called], r"[a-zA-Z0-9_-]+")
    for one in called:
        _called_name(one["name"])
    if turns[0][0] != "user":
        raise Refused("messages: first message must use the 'user' role")
    _thinking(body, turns)
    previous: list[str] = []
    for index, (role, blocks) in enumerate(turns):
        previous = _turn(index, role, blocks, previous)
    if previous:
        raise Refused(f"`tool_use` ids were found without `tool_result` blocks immediately after: {previous}")
    _breakpoints(body)


def _thinking(body: Mapping[str, Any], turns: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> None:
    """Thinking comes back signed, before what followed it, and to the model whose it was."""
    thinking = body.get("thinking", {})
    if thinking.get("type") == "enabled" and not 1_024 <= thinking["budget_tokens"] < body["max_tokens"]:
        raise Refused("`max_tokens` must be greater than `thinking.budget_tokens`")
    for index, (role, blocks) in enumerate(turns):
        for block in blocks:
            if block["type"] == "thinking" and not sealed_for(body["model"], block["signature"]):
                raise Refused(f"messages.{index}: Invalid `signature` in `thinking` block")
        if role == "assistant" and blocks[-1]["type"] == "thinking":
            raise Refused(f"messages.{index}: The final block in an assistant message cannot be `thinking`.")
    if thinking.get("type") in {"enabled", "adaptive"} and len(turns) > 1 and _goes_on_after_tools(turns):
        found = turns[-2][1][0]["type"]
        if found not in {"thinking", "redacted_thinking"}:
            raise Refused(f"messages.{len(turns) - 2}: Expected `thinking` or `redacted_thinking`, but found `{found}`")


def _goes_on_after_tools(turns: Sequence[tuple[str, Sequence[Mapping[str, Any]]]]) -> bool:
    return any(block["type"] == "tool_result" for block in turns[-1][1])


def merged_turns(messages: Sequence[Mapping[str, Any]]) -> list[tuple[str, list[Mapping[str, Any]]]]:
    """Roles and blocks, consecutive messages of one role joined, as the API does."""
    turns: list[tuple[str, list[Mapping[str, Any]]]] = []
    for message in messages:
        content = message["content"]
        blocks: list[Mapping[str, Any]] = (
            [{"type": "text", "text": content}] if isinstance(content, str) else list(content)
        )
        if not blocks:
            raise Refused("messages: all messages must have non-empty content")
        if turns and turns[-1][0] == message["role"]:
            turns[-1][1].extend(blocks)
        else:
            turns.append((message["role"], blocks))
    return turns


def _turn(index: int, role: str, blocks: Sequence[Mapping[str, Any]], called: list[str]) -> list[str]:
    for block in blocks:
        kind = _BLOCKS.get(block["type"])
        if kind is None:
            raise Refused(f"messages.{index}: Input tag '{block['type']}' found")
        _known(f"messages.{index}.{block['type']}: Extra inputs are not permitted", block, _all_fields(kind))
        if block["type"] == "text" and not block["text"].strip():
            raise Refused("messages: text content blocks must contain non-whitespace text")
        _source(f"messages.{index}", block)
        content = block.get("content", ()) if block["type"] == "tool_result" else ()
        for part in () if isinstance(content, str) else content:
            _source(f"messages.{index}", part)
            if part["type"] not in ("text", "image", "document"):
                raise Refused(f"messages.{index}: Input tag '{part['type']}' found in tool_result")
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    leading = [block["tool_use_id"] for block in blocks[: len(results)] if block["type"] == "tool_result"]
    if set(called) - set(leading):
        missing = sorted(set(called) - set(leading))
        raise Refused(
            f"messages.{index - 1}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}"
        )
    if set(results) - set(called):
        raise Refused(f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {results}")
    return [block["id"] for block in blocks if block["type"] == "tool_use"] if role == "assistant" else []


def _source(where: str, block: Mapping[str, Any]) -> None:
    source = block.get("source", {})
    if block["type"] in ("image", "document") and source.get("type") == "base64":
        known = _PICTURES if block["type"] == "image" else frozenset({"application/pdf"})
        _media(f"{where}.{block['type']}.source.base64", source["media_type"], source["data"], known)


def _breakpoints(body: Mapping[str, Any]) -> None:
    system = body.get("system", [])
    marked = [*body.get("tools", []), *([] if isinstance(system, str) else system)]
    marked += [
        block for message in body["messages"] if not isinstance(message["content"], str) for block in message["content"]
    ]
    count = sum(1 for block in marked if "cache_control" in block)
    if count > _MOST_BREAKPOINTS:
        raise Refused(f"A maximum of 4 blocks with cache_control may be provided. Found {count}.")
