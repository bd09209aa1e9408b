"""OpenAI's Responses API: `function_call` items in, `function_call_output` items out."""

from collections.abc import Sequence
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.llm.providers.requests import SHOWN, data_url
from outlast.activities.media import PDF
from outlast.api.adapters.model_calls import ModelCall, Outcome, entries_of, plain, read_call, with_cut_off
from outlast.api.adapters.pieces import pieces_of
from outlast.api.offer.portable_schemas import PortableTool
from outlast.workflows.tools.answers import Piece


class OpenAIResponses:
    """A `BackEnd`. Takes a response, as an object or its JSON, or its output items."""

    name = "openai-responses"

    def tool(self, shown: PortableTool) -> JsonObject:
        """`FunctionToolParam`. Not strict: strict schemas have neither optional fields nor defaults."""
        return {
            "type": "function",
            "name": shown.name,
            "description": shown.description,
            "parameters": shown.schema,
            "strict": False,
        }

    def calls(self, message: object) -> tuple[ModelCall, ...]:
        """The `function_call` items. Others (messages, reasoning, the provider's own tools) are ignored."""
        whole = plain(message)
        calls = tuple(
            read_call(item.get("call_id"), item.get("name"), item.get("arguments"))
            for item in entries_of(whole, "output")
            if item.get("type") == "function_call"
        )
        return with_cut_off(calls, at_limit=_ended_at_limit(whole))

    def append(self, outcomes: Sequence[Outcome]) -> list[JsonObject]:
        """One item per call. The protocol has no mark for errors: the last line of the output has them as JSON."""
        return [
            {"type": "function_call_output", "call_id": outcome.call.id, "output": _output(outcome)}
            for outcome in outcomes
        ]


def _ended_at_limit(response: Any) -> bool:
    match response:
        case {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}}:
            return True
        case _:
            return False


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
