"""Anthropic's Messages API: `tool_use` blocks in, `tool_result` blocks out."""

from collections.abc import Sequence
from typing import cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.llm.providers.requests import SHOWN
from outlast.activities.media import PDF
from outlast.api.adapters.model_calls import ModelCall, Outcome, entries_of, plain, read_call, with_cut_off
from outlast.api.adapters.pieces import pieces_of
from outlast.api.offer.portable_schemas import PortableTool
from outlast.workflows.tools.answers import Piece


class AnthropicMessages:
    """A `BackEnd`. Takes a message, as an object or its JSON, or its content blocks."""

    name = "anthropic"

    def tool(self, shown: PortableTool) -> JsonObject:
        """`ToolParam`."""
        return {"name": shown.name, "description": shown.description, "input_schema": shown.schema}

    def calls(self, message: object) -> tuple[ModelCall, ...]:
        """The `tool_use` blocks. Others (text, thinking, the provider's own tools) are ignored."""
        whole: JsonValue = plain(message)
        stop_reason = whole.get("stop_reason") if isinstance(whole, dict) else None
        calls = tuple(
            read_call(block.get("id"), block.get("name"), block.get("input"))
            for block in entries_of(whole, "content")
            if block.get("type") == "tool_use"
        )
        return with_cut_off(calls, at_limit=stop_reason == "max_tokens")

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
