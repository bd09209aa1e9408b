"""Tool calls of a model and their outcomes, in one form for every provider."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, cast

from pydantic import BaseModel, Field

from outlast.activities.contracts import ErrorEnvelope, JsonObject
from outlast.activities.json_numbers import exact_json
from outlast.activities.unicode_text import NOTE, valid_json, valid_text
from outlast.api.catalog.portable_schemas import PortableTool
from outlast.api.errors import BadRequest
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.contracts.tool_calls import TaskStatus, ToolResult

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
