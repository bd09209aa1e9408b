"""OpenAI's Chat Completions API, and the many servers that speak it: `tool_calls` in, `tool` messages out."""

from collections.abc import Sequence
from typing import Any

from outlast.activities.contracts import JsonObject
from outlast.api.adapters.model_calls import ModelCall, Outcome, entries_of, plain, read_call, with_cut_off
from outlast.api.adapters.pieces import pieces_of
from outlast.api.errors import BadRequest
from outlast.api.offer.portable_schemas import PortableTool


class OpenAIChat:
    """A `BackEnd`. Takes a completion or its message, as an object or its JSON, or the message's `tool_calls`."""

    name = "openai-chat"

    def tool(self, shown: PortableTool) -> JsonObject:
        """`ChatCompletionFunctionToolParam`. Not strict: strict schemas have neither optional fields nor defaults."""
        function: JsonObject = {
            "name": shown.name,
            "description": shown.description,
            "parameters": shown.schema,
            "strict": False,
        }
        return {"type": "function", "function": function}

    def calls(self, message: object) -> tuple[ModelCall, ...]:
        """The calls of functions. Calls of the provider's custom tools are ignored."""
        whole = plain(message)
        entries = entries_of(_message(whole), "tool_calls")
        calls = tuple(_call(call) for call in entries if call.get("type", "function") == "function")
        return with_cut_off(calls, at_limit=_ended_at_limit(whole))

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
    """The message that may call tools; in a completion, that of the first choice."""
    match value:
        case {"choices": [{"message": message}, *_]}:
            return _message(message)
        case {"role": "assistant"} if "tool_calls" not in value:
            return []
        case _:
            return value


def _ended_at_limit(completion: Any) -> bool:
    match completion:
        case {"choices": [{"finish_reason": "length"}, *_]}:
            return True
        case _:
            return False


def _call(call: JsonObject) -> ModelCall:
    function = call.get("function")
    if not isinstance(function, dict):
        raise BadRequest(f"The tool call {call.get('id')!r} has no function.")
    return read_call(call.get("id"), function.get("name"), function.get("arguments"))
