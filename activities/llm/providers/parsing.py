"""Parses tool calls, reasoning and token counts in the same way for every provider."""

from collections.abc import Sequence

from pydantic import JsonValue
from pydantic_core import from_json

from outlast.activities.llm.contracts import AnswerPart, CallModelInput, ReasoningPart, ToolCallPart

MAX_ARGUMENT_CHARS = 256 * 1024
"""Longer arguments of a model are kept as text only: a turn's workflow would decode and check them."""


def tool_call(call_id: str, name: str, raw_arguments: str) -> ToolCallPart:
    """The call. Empty arguments become `{}`; arguments that are not a JSON object or too long are kept as text only."""
    return ToolCallPart(id=call_id, name=name, arguments=_arguments(raw_arguments), raw_arguments=raw_arguments)


def sent_arguments(call: ToolCallPart) -> dict[str, JsonValue]:
    """The arguments as an object, for providers that accept only objects; invalid ones as `{"unparsed": text}`."""
    return {"unparsed": call.raw_arguments} if call.arguments is None else call.arguments


def without_loose_reasoning(parts: Sequence[AnswerPart]) -> tuple[AnswerPart, ...]:
    """`parts` up to the last text or call: providers refuse reasoning after which the answer was cut off."""
    end = len(parts)
    while end and isinstance(parts[end - 1], ReasoningPart):
        end -= 1
    return tuple(parts[:end])


def is_from(part: ReasoningPart, request: CallModelInput) -> bool:
    """Whether the model that is called now has reasoned this: no other can read it."""
    return (part.provider_id, part.model_id) == (request.provider_id, request.model_id)


def tokens(usage: object, *path: str) -> int:
    """The number at `path`; 0 when the server omits it."""
    for name in path:
        usage = getattr(usage, name, None)
    return usage if isinstance(usage, int) else 0


def _arguments(raw: str) -> dict[str, JsonValue] | None:
    if not raw.strip():
        return {}
    if len(raw) > MAX_ARGUMENT_CHARS:
        return None
    try:
        value: object = from_json(raw, allow_inf_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]  # JSON
