"""Calls and messages of model providers: tools, tool calls and answers of Anthropic, OpenAI (two APIs) and MCP.

Media that a provider cannot show are described in text. Sessions, progress and tasks of MCP are in `api.mcp`.
"""

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from pydantic import BaseModel, Field, JsonValue

from outlast.activities.contracts import ErrorEnvelope, JsonObject
from outlast.activities.conversations.contracts import MediaPart
from outlast.activities.json_numbers import exact_json
from outlast.activities.llm.providers.requests import SHOWN, data_url, shown_media
from outlast.activities.media import PDF
from outlast.activities.unicode_text import NOTE, valid_json, valid_text
from outlast.api.access.permissions import approver_words
from outlast.api.catalog.mcp_results import call_result
from outlast.api.catalog.portable_schemas import PortableTool
from outlast.api.errors import BadRequest
from outlast.api.tasks.task_text import is_approval
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.contracts.tool_calls import TaskStatus, ToolResult
from outlast.workflows.tools.answers import Piece, answer_facts, answer_pieces, as_json

MAX_ID_CHARS = 200
_MAX_NAME_CHARS = 128
"""No tool has a longer name. A longer one that a model invented is cut so that the error stays readable."""
_MAX_FLAW_CHARS = 300


@dataclass(frozen=True)
class ModelCall:
    """A call as a model made it. `flaw` explains why the arguments are unreadable; they are empty then.

    `marks_retry`: the id is unique, so that the same id is the same call. `cut_off`: the output limit ended the model's
    answer inside this call.
    """

    id: str | int
    name: str
    arguments: JsonObject
    flaw: str | None = None
    marks_retry: bool = True
    cut_off: bool = False
    changes: tuple[str, ...] = ()
    """Replacements in the arguments, in words, for the model."""


@dataclass(frozen=True)
class Outcome:
    """The outcome of a call. `result` is the text for the model, also while the task is running.

    `task` is None if no task was started: an unknown tool, invalid arguments, or a local tool.
    """

    call: ModelCall
    tool: str
    result: ToolResult
    task: Task | None = None
    finished: bool = True
    unknown_tool: bool = False


class CallReport(BaseModel):
    """The outcome of a call, for the program that runs the model."""

    id: str = Field(description="The model's own id of the call.")
    tool: str
    is_error: bool
    error: ErrorEnvelope | None = None
    finished: bool = Field(description="False while the task is still running: collect its result later.")
    task_id: str | None = Field(default=None, description="The task behind the call; absent when none was started.")
    status: TaskStatus | None = Field(default=None, description="State of the task.")
    input_requests: dict[str, InputRequest] | None = Field(
        default=None, description="Questions that the task waits for, by key."
    )
    structured: JsonObject | None = Field(
        default=None, description="The structured answer; for a stored output, its locator and summary."
    )

    @classmethod
    def of(cls, outcome: Outcome) -> "CallReport":
        """Return the report of `outcome`."""
        task, result = outcome.task, outcome.result
        return cls(
            id=str(outcome.call.id),
            tool=outcome.tool,
            is_error=result.is_error,
            error=result.error,
            finished=outcome.finished,
            task_id=task.id if task else None,
            status=TaskStatus(task.status) if task else None,
            input_requests=(task.input_requests or None) if task else None,
            structured=result.structured,
        )


class BackEnd(Protocol):
    """Translation between one provider's protocol and Outlast's. Runs nothing."""

    @property
    def name(self) -> str:
        """The back end's name, for example in a URL."""
        ...

    def tool(self, shown: PortableTool) -> JsonObject:
        """Return the tool as an entry of the provider's list of tools."""
        ...

    def calls(self, message: object) -> tuple[ModelCall, ...]:
        """Return the calls in a model's message. Raises `BadRequest` for a message of another protocol."""
        ...

    def append(self, outcomes: Sequence[Outcome]) -> list[JsonObject]:
        """Return the messages to append to the conversation, in the order of the calls."""
        ...


def read_call(call_id: object, name: object, arguments: object) -> ModelCall:
    """Build a call from its parts; `arguments` is an object or its JSON. Raises `BadRequest` for a malformed id or
    name.

    Unreadable arguments are the model's mistake: they are its `flaw`.
    """
    if not isinstance(call_id, str) or not 1 <= len(call_id) <= MAX_ID_CHARS or call_id != valid_text(call_id):
        raise BadRequest(f"A tool call needs an id, a text of 1 to {MAX_ID_CHARS} characters.")
    if not isinstance(name, str) or not name:
        raise BadRequest(f"The tool call {call_id!r} names no tool.")
    name = valid_text(name[:_MAX_NAME_CHARS])
    # Some models send nothing for a tool that takes no arguments.
    given = "{}" if arguments is None or arguments == "" else arguments
    try:
        written: Any = exact_json(given) if isinstance(given, str) else given
        if isinstance(written, str) and written.lstrip().startswith("{"):
            written = exact_json(written)  # An object as JSON in a JSON string.
        valid = valid_json(written)
        # Raises for numbers, texts and keys that JSON does not have.
        value: object = json.loads(json.dumps(valid, ensure_ascii=False, allow_nan=False).encode())
    except (TypeError, ValueError, RecursionError) as error:
        return ModelCall(call_id, name, {}, flaw=f"The arguments are not valid JSON: {error}"[:_MAX_FLAW_CHARS])
    if not isinstance(value, dict):
        return ModelCall(call_id, name, {}, flaw="The arguments must be one JSON object.")
    return ModelCall(call_id, name, cast(JsonObject, value), changes=() if valid is written else (NOTE.rstrip("."),))


def with_cut_off(calls: tuple[ModelCall, ...]) -> tuple[ModelCall, ...]:
    """Mark the last call of an answer that reached the output limit, if the answer ended inside that call."""
    return calls if not calls or calls[-1].arguments else (*calls[:-1], replace(calls[-1], cut_off=True))


def plain(value: object) -> Any:
    """`value` without the classes of a provider's library: objects and lists as in JSON."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json", by_alias=True, warnings=False)
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in cast(Mapping[object, object], value).items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in cast(Sequence[object], value)]
    return value


def entries_of(message: object, *holders: str) -> list[JsonObject]:
    """Return the list of objects in `message`: itself, or its value under the first of `holders` that it has.

    A text instead of a list has no calls. Raises `BadRequest` for other values.
    """
    value = plain(message)
    if isinstance(value, dict):
        held = cast(dict[str, Any], value)
        key = next((holder for holder in holders if holder in held), None)
        if key is None:
            raise BadRequest(f"This is not a message of the provider: it has none of {', '.join(holders)}.")
        value = held[key]
    if value is None or isinstance(value, str):
        return []
    if not isinstance(value, list) or not all(isinstance(part, dict) for part in cast(list[object], value)):
        raise BadRequest("The message must be an object or a list of objects, as the provider gave it.")
    return cast(list[JsonObject], value)


_INVALID_PARAMS = -32602
"""JSON-RPC 2.0, section 5.1. The MCP SDK, which has it too, takes a quarter of a second to load."""
_TASK_META = "outlast/taskId"


class AnthropicMessages:
    """A `BackEnd`. Takes a message, as an object or its JSON, or its content blocks."""

    name = "anthropic"

    def tool(self, shown: PortableTool) -> JsonObject:
        """`ToolParam`."""
        return {"name": shown.name, "description": shown.description, "input_schema": shown.schema}

    def calls(self, message: object) -> tuple[ModelCall, ...]:
        """Return the `tool_use` blocks. Others (text, thinking, the provider's own tools) are ignored."""
        whole: JsonValue = plain(message)
        stop_reason = whole.get("stop_reason") if isinstance(whole, dict) else None
        calls = tuple(
            read_call(block.get("id"), block.get("name"), block.get("input"))
            for block in entries_of(whole, "content")
            if block.get("type") == "tool_use"
        )
        return with_cut_off(calls) if stop_reason == "max_tokens" else calls

    def append(self, outcomes: Sequence[Outcome]) -> list[JsonObject]:
        """One user message with all results, as the API requires; empty if there were no calls."""
        blocks = [_tool_result(outcome) for outcome in outcomes]
        return [{"role": "user", "content": cast(list[JsonValue], blocks)}] if blocks else []


def _tool_result(outcome: Outcome) -> JsonObject:
    """`ToolResultBlockParam`. The API rejects empty text blocks, but accepts a result without content."""
    return {
        "type": "tool_result",
        "tool_use_id": outcome.call.id,
        "content": [_block(piece) for piece in pieces_of(outcome, SHOWN)],
        "is_error": outcome.result.is_error,
    }


def _block(piece: Piece) -> JsonObject:
    if isinstance(piece, str):
        return {"type": "text", "text": piece}
    source: JsonObject = {"type": "base64", "media_type": piece.media_type, "data": piece.data}
    return {"type": "document" if piece.media_type == PDF else "image", "source": source}


def _function(shown: PortableTool) -> JsonObject:
    """Not strict: strict schemas have neither optional fields nor defaults."""
    return {"name": shown.name, "description": shown.description, "parameters": shown.schema, "strict": False}


class OpenAIChat:
    """A `BackEnd`. Takes a completion or its message, as an object or its JSON, or the message's `tool_calls`."""

    name = "openai-chat"

    def tool(self, shown: PortableTool) -> JsonObject:
        """`ChatCompletionFunctionToolParam`."""
        return {"type": "function", "function": _function(shown)}

    def calls(self, message: object) -> tuple[ModelCall, ...]:
        """Return the calls of functions. Calls of the provider's custom tools are ignored."""
        whole = plain(message)
        entries = entries_of(_message(whole), "tool_calls")
        calls = tuple(_function_call(call) for call in entries if call.get("type", "function") == "function")
        match whole:
            case {"choices": [{"finish_reason": "length"}, *_]}:
                return with_cut_off(calls)
            case _:
                return calls

    def append(self, outcomes: Sequence[Outcome]) -> list[JsonObject]:
        """One message per call. It has only text; an error is in the last line, as JSON."""
        return [
            {
                "role": "tool",
                "tool_call_id": outcome.call.id,
                "content": "\n".join(piece for piece in pieces_of(outcome) if isinstance(piece, str)),
            }
            for outcome in outcomes
        ]


def _message(value: Any) -> Any:
    """Return the message that may call tools; in a completion, that of the first choice."""
    match value:
        case {"choices": [{"message": message}, *_]}:
            return _message(message)
        case {"role": "assistant"} if "tool_calls" not in value:
            return []
        case _:
            return value


def _function_call(call: JsonObject) -> ModelCall:
    function = call.get("function")
    if not isinstance(function, dict):
        raise BadRequest(f"The tool call {call.get('id')!r} has no function.")
    return read_call(call.get("id"), function.get("name"), function.get("arguments"))


class OpenAIResponses:
    """A `BackEnd`. Takes a response, as an object or its JSON, or its output items."""

    name = "openai-responses"

    def tool(self, shown: PortableTool) -> JsonObject:
        """`FunctionToolParam`."""
        return {"type": "function", **_function(shown)}

    def calls(self, message: object) -> tuple[ModelCall, ...]:
        """Return the `function_call` items. Others (messages, reasoning, the provider's own tools) are ignored."""
        whole = plain(message)
        calls = tuple(
            read_call(item.get("call_id"), item.get("name"), item.get("arguments"))
            for item in entries_of(whole, "output")
            if item.get("type") == "function_call"
        )
        match whole:
            case {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}:
                return with_cut_off(calls)
            case _:
                return calls

    def append(self, outcomes: Sequence[Outcome]) -> list[JsonObject]:
        """One item per call. The protocol has no mark for errors: the last line of the output has them as JSON."""
        return [
            {"type": "function_call_output", "call_id": outcome.call.id, "output": _output(outcome)}
            for outcome in outcomes
        ]


def _output(outcome: Outcome) -> JsonValue:
    pieces = pieces_of(outcome, SHOWN)
    texts = [piece for piece in pieces if isinstance(piece, str)]
    if len(texts) == len(pieces):
        return "\n".join(texts)
    return cast(list[JsonValue], [_item(piece) for piece in pieces])


def _item(piece: Piece) -> JsonObject:
    if isinstance(piece, str):
        return {"type": "input_text", "text": piece}
    address = data_url(piece)
    if piece.media_type == PDF:
        return {"type": "input_file", "filename": "document.pdf", "file_data": address}
    return {"type": "input_image", "image_url": address}


class McpMessages:
    """A `BackEnd`. Takes one request or a list of them."""

    name = "mcp"

    def __init__(self, *, mode: str = "default") -> None:
        """In the mode `openai`, answers keep the data for widgets."""
        self._mode = mode

    def tool(self, shown: PortableTool) -> JsonObject:
        """`Tool` of MCP, with the tool's own name and schema, which MCP does not restrict."""
        definition = shown.definition
        return {"name": definition.name, "description": definition.description, "inputSchema": definition.input_schema}

    def calls(self, message: object) -> tuple[ModelCall, ...]:
        """Return the requests. Their IDs are unique only within a connection, so the same ID later is another call."""
        value = plain(message)
        requests = cast(list[Any], value if isinstance(value, list) else [value])
        return tuple(_request_call(request) for request in requests)

    def append(self, outcomes: Sequence[Outcome]) -> list[JsonObject]:
        """Return one response per request; an unknown tool is a protocol error, as the specification requires."""
        return [self._response(outcome) for outcome in outcomes]

    def _response(self, outcome: Outcome) -> JsonObject:
        response: JsonObject = {"jsonrpc": "2.0", "id": outcome.call.id}
        error = outcome.result.error
        if outcome.unknown_tool and error is not None:
            data: JsonValue = error.model_dump(mode="json")
            return {**response, "error": {"code": _INVALID_PARAMS, "message": error.message, "data": data}}
        meta: JsonObject = {_TASK_META: outcome.task.id} if outcome.task else {}
        return {**response, "result": call_result(outcome.result, mode=self._mode, meta=meta)}


def _request_call(request: Any) -> ModelCall:
    match request:
        case {"method": "tools/call", "id": int() | str() as request_id, "params": {"name": name, **params}}:
            arguments = cast(dict[str, object], params).get("arguments")
            return replace(read_call(str(request_id), name, arguments), id=request_id, marks_retry=False)
        case _:
            raise BadRequest("This is not a `tools/call` request of JSON-RPC: method, id, and params with a name.")


def pieces_of(outcome: Outcome, shown: Container[str] = frozenset()) -> list[Piece]:
    """Return the answer, followed by its details as JSON. Media of types not in `shown` are described in text."""
    found = details(outcome)
    pieces = [*answer_pieces(outcome.result), *([as_json(found)] if found else [])]
    return [shown_media(piece, shown) if isinstance(piece, MediaPart) else piece for piece in pieces]


def details(outcome: Outcome) -> JsonObject:
    """Return the facts beside the text that models and programs need: errors, stored outputs, running tasks."""
    result, task = outcome.result, outcome.task
    found = answer_facts(result, tool=outcome.tool)
    if task is not None and (result.is_error or not outcome.finished):
        found["task"] = {"id": task.id, "status": str(task.status)}
    if task is not None and not outcome.finished and task.input_requests and task.asks_people:
        found["questions"] = {
            key: _question_data(question)
            for key, question in task.input_requests.items()
            if not question.is_for_program
        }
    return found


def _question_data(question: InputRequest) -> JsonObject:
    data: JsonObject = {"message": question.message, "schema": question.requested_schema}
    if question.handoff is not None and is_approval(question):
        data["approve"] = {"tool": question.handoff.tool, **question.handoff.parameters}
        if question.approvers:
            data["approval_by"] = approver_words(question.approvers)
    return data
