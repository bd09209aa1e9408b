"""The interface of model providers, and parsing of tool calls, reasoning and token counts that they share."""

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, cast

from pydantic import JsonValue
from pydantic_core import from_json

from outlast.activities.conversations.contracts import AnswerPart, ReasoningPart, TextPart, ToolCallPart
from outlast.activities.json_numbers import number_flaws
from outlast.activities.llm.contracts import CallModelInput, ModelStep
from outlast.activities.unicode_text import valid_json_text, valid_text


class Listener(Protocol):
    """Receives the answer of a model piece by piece."""

    def text(self, piece: str) -> None:
        """A piece of text; the joined pieces are `ModelStep.text`."""

    def arguments(self, call_id: str, tool: str, piece: str) -> None:
        """A piece of a call's arguments; the joined pieces of a call are its `raw_arguments`."""


class Provider(Protocol):
    """One provider, with its key and its base URL."""

    async def call(self, request: CallModelInput, listener: Listener) -> ModelStep:
        """Call the model once. A cancellation closes the connection. Raises `ProviderError`; never retries."""
        ...

    async def close(self) -> None:
        """Close the open connections."""


MAX_ARGUMENT_CHARS = 256 * 1024
"""Longer arguments of a model are kept as text only: a turn's workflow would decode and check them."""
_MOST_TOKENS = 10**12
_HALF = "\\ud"
_NO_ARGUMENTS = frozenset({"", "null", "[]", "{}", '""'})
"""Forms in which programs write that there are no arguments: a nil map of Go, an empty array of PHP."""


def tool_call(call_id: str, name: str, raw_arguments: str) -> ToolCallPart:
    """The call. Empty arguments become `{}`; arguments that are not a JSON object or too long are kept as text only."""
    raw = valid_text(raw_arguments)
    return ToolCallPart(id=valid_text(call_id), name=valid_text(name), arguments=read_arguments(raw), raw_arguments=raw)


def call_id(given: object, used: Collection[str], step: int) -> str:
    """Return the id that assigns a result to its call: `given`, unless a server has omitted it or used it before."""
    own = valid_text(given) if isinstance(given, str) else "" if given is None else str(given)
    if own and own not in used:
        return own
    number = len(used)
    while f"call_{step}_{number}" in used:
        number += 1
    return f"call_{step}_{number}"


def text_of(value: object) -> str:
    """`value`, if it is a text; else an empty one."""
    return value if isinstance(value, str) else ""


def index_of(value: object) -> int | None:
    """Return the number by which a stream names a call or a block, also as a text; None for what is none."""
    try:
        return int(value) if isinstance(value, int | float | str) and not isinstance(value, bool) else None
    except (ValueError, OverflowError):
        return None


def arguments_piece(value: JsonValue) -> str:
    """Return a piece of the arguments of a call; some servers send them as an object instead of its JSON."""
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)


def has_no_arguments(raw: str) -> bool:
    """Return True if `raw` is a form in which servers write that there are no arguments."""
    return raw.strip() in _NO_ARGUMENTS


def sent_arguments(call: ToolCallPart) -> dict[str, JsonValue]:
    """The arguments as an object, for providers that accept only objects; invalid ones as `{"unparsed": text}`."""
    return {"unparsed": call.raw_arguments} if call.arguments is None else call.arguments


def as_written(call: ToolCallPart) -> str | None:
    """The arguments as the model wrote them; None for none, and for an object in a form that providers refuse."""
    is_object = call.raw_arguments.lstrip().startswith("{")
    return call.raw_arguments if call.raw_arguments and (is_object or call.arguments is None) else None


def without_loose_reasoning(parts: Sequence[AnswerPart]) -> tuple[AnswerPart, ...]:
    """`parts` up to the last text or call: providers refuse reasoning after which the answer was cut off."""
    end = len(parts)
    while end and isinstance(parts[end - 1], ReasoningPart):
        end -= 1
    return tuple(parts[:end])


def with_words(request: CallModelInput, step: ModelStep) -> ModelStep:
    """The answer where it has to be a text: without calls, and with `request.text_if_none` if the model wrote none. Not
    every provider can forbid tool calls, and not every server obeys.
    """
    if request.text_if_none is None or (step.text.strip() and not step.tool_calls):
        return step
    kept = without_loose_reasoning([part for part in step.parts if not isinstance(part, ToolCallPart)])
    words = () if step.text.strip() else (TextPart(text=request.text_if_none),)
    dropped = f"{request.provider_id} called a tool where none can be called: the call was dropped."
    return step.model_copy(
        update={
            "parts": (*kept, *words),
            "finish_reason": "other" if step.finish_reason == "tool_calls" else step.finish_reason,
            "warnings": (*step.warnings, *((dropped,) if step.tool_calls else ())),
        }
    )


def is_from(part: ReasoningPart, request: CallModelInput) -> bool:
    """Return True if the model of this call wrote the reasoning: no other model can read it."""
    return (part.provider_id, part.model_id) == (request.provider_id, request.model_id)


def tokens(usage: object, *path: str) -> int:
    """Return the number at `path`; 0 when the server omits it."""
    for name in path:
        usage = cast(Mapping[str, object], usage).get(name) if isinstance(usage, Mapping) else None
    return int(usage) if isinstance(usage, int | float) and 0 <= usage < _MOST_TOKENS else 0


def read_arguments(raw: str) -> dict[str, JsonValue] | None:
    """Return the arguments as an object; None for anything else. An object as JSON in a text is read as the object."""
    if has_no_arguments(raw):
        return {}
    if len(raw) > MAX_ARGUMENT_CHARS:
        return None
    value = _json(raw)
    if isinstance(value, str) and value.lstrip().startswith("{"):
        value = _json(value)
    return cast(dict[str, JsonValue], value) if isinstance(value, dict) else None


def _json(text: str) -> object:
    if number_flaws(text.encode(errors="replace")):
        return None
    try:
        return from_json(text, allow_inf_nan=False)
    except ValueError:
        if _HALF not in text.lower():
            return None
    try:
        # Half a character, written as an escape: pydantic's parser refuses it.
        return from_json(valid_json_text(text.encode()), allow_inf_nan=False)
    except ValueError:
        return None
