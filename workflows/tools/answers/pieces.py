"""A tool's answer as pieces for a model, for turns and adapters alike: texts, media, and its facts as JSON. Pure."""

import json
from collections.abc import Iterator
from typing import Any, cast

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.activities.llm.contracts import MediaPart
from outlast.workflows.contracts.tool_calls import ToolResult

Piece = str | MediaPart


def answer_pieces(result: ToolResult) -> list[Piece]:
    """The content of an answer in its order; for an answer without content, its structured form as JSON."""
    pieces = [piece for block in _content_blocks(result) for piece in _pieces(block)]
    shown = [piece for piece in pieces if not isinstance(piece, str) or piece.strip()]
    if not pieces and result.structured is not None:
        return [as_json(result.structured)]
    return shown


def answer_facts(result: ToolResult, *, tool: str) -> JsonObject:
    """The facts that a model or program needs besides the content: the error of `tool`, the stored output.

    Empty for an answer without any of them.
    """
    facts: JsonObject = {"is_error": True} if result.is_error else {}
    if result.error is not None:
        envelope = result.error.model_copy(update={"tool": result.error.tool or tool})
        facts["error"] = envelope.model_dump(mode="json", exclude_none=True)
    if result.structured is not None and result.structured.get("compressed") is True:
        facts |= {key: result.structured.get(key) for key in ("compressed", "locator")}
    return facts


def as_json(value: JsonValue) -> str:
    """`value` as JSON without spaces: they cost tokens."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _content_blocks(result: ToolResult) -> list[JsonObject]:
    """The answer's content in MCP's shapes."""
    if result.raw_content is not None:
        return list(result.raw_content)
    return [block.model_dump(mode="json", exclude_none=True) for block in result.content]


def _pieces(block: JsonObject) -> Iterator[Piece]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield text
        case {"type": "image" | "audio" as kind, "data": str(data), "mimeType": str(media_type)}:
            yield MediaPart(data=data, media_type=media_type, name=str(kind))
        case {"type": "resource", "resource": {"text": str(text)}}:
            yield text
        case {"type": "resource", "resource": {"blob": str(blob), **resource}}:
            given = cast(dict[str, Any], resource)
            media_type = given.get("mimeType") or "application/octet-stream"
            yield MediaPart(data=blob, media_type=str(media_type), name=str(given.get("uri", "resource")))
        case {"type": "resource_link", "uri": str(uri)}:
            named = " ".join(str(block[key]) for key in ("name", "mimeType") if block.get(key))
            yield f"[{named}: {uri}]"
        case _:
            yield as_json(block)
