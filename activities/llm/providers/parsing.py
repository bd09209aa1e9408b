"""What models say, read the same for every provider."""

from pydantic import JsonValue
from pydantic_core import from_json

from outlast.activities.llm.contracts import ToolCallPart


def tool_call(call_id: str, name: str, raw_arguments: str) -> ToolCallPart:
    """The call. No arguments at all mean none; what is no JSON object is kept as it is written."""
    return ToolCallPart(id=call_id, name=name, arguments=_arguments(raw_arguments), raw_arguments=raw_arguments)


def sent_arguments(call: ToolCallPart) -> dict[str, JsonValue]:
    """The arguments as an object, for providers that take nothing else: a model is shown what it wrote."""
    return {"unparsed": call.raw_arguments} if call.arguments is None else call.arguments


def tokens(usage: object, *path: str) -> int:
    """The number at `path`; 0 where a server leaves it out."""
    for name in path:
        usage = getattr(usage, name, None)
    return usage if isinstance(usage, int) else 0


def _arguments(raw: str) -> dict[str, JsonValue] | None:
    if not raw.strip():
        return {}
    try:
        value: object = from_json(raw, allow_inf_nan=False)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None  # pyright: ignore[reportUnknownVariableType]  # JSON
