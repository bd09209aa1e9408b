"""An outcome as pieces for a model, independent of the provider: texts and media.

What a provider cannot show is described in text, never dropped.
"""

import json
from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Any, cast

from pydantic import JsonValue

from outlast.api.adapters.model_calls import Outcome
from outlast.api.tasks.question_text import is_approval
from outlast.workflows.contracts.questions import InputRequest
from outlast.workflows.contracts.tool_calls import ToolResult

JsonObject = dict[str, JsonValue]

PICTURES = frozenset({"image/jpeg", "image/png", "image/gif", "image/webp"})
"""Image types that Anthropic and OpenAI accept."""
PDF = "application/pdf"


@dataclass(frozen=True)
class Media:
    """A picture, a sound or a file, base64."""

    data: str
    mime_type: str
    name: str

    @property
    def description(self) -> str:
        """The text that replaces it where it cannot be shown."""
        return f"[{self.name}, {self.mime_type}, {len(self.data) * 3 // 4} bytes: it cannot be shown here]"


Piece = str | Media


def pieces_of(outcome: Outcome, shown: Container[str] = frozenset()) -> list[Piece]:
    """The answer, followed by its details as JSON. Media of types not in `shown` are described in text."""
    result = outcome.result
    pieces = [piece for block in content_blocks(result) for piece in _pieces(block)]
    if not pieces and result.structured is not None:
        pieces = [_json(result.structured)]
    found = details(outcome)
    if found:
        pieces.append(_json(found))
    readable = [
        piece.description if isinstance(piece, Media) and piece.mime_type not in shown else piece for piece in pieces
    ]
    return [piece for piece in readable if not isinstance(piece, str) or piece.strip()]


def details(outcome: Outcome) -> JsonObject:
    """The facts that a model or program needs besides the text: errors, stored outputs, running tasks.

    Empty for an answer without any of them.
    """
    result, task = outcome.result, outcome.task
    found: JsonObject = {"is_error": True} if result.is_error else {}
    if result.error is not None:
        envelope = result.error.model_copy(update={"tool": result.error.tool or outcome.tool})
        found["error"] = envelope.model_dump(mode="json", exclude_none=True)
    if result.structured is not None and result.structured.get("compressed") is True:
        found |= {key: result.structured.get(key) for key in ("compressed", "locator")}
    if task is not None and (result.is_error or not outcome.finished):
        found["task"] = {"id": task.id, "status": task.status.value}
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
    return data


def content_blocks(result: ToolResult) -> list[JsonObject]:
    """The answer's content in MCP's shapes."""
    if result.raw_content is not None:
        return list(result.raw_content)
    return [block.model_dump(mode="json", exclude_none=True) for block in result.content]


def _pieces(block: JsonObject) -> Iterator[Piece]:
    match block:
        case {"type": "text", "text": str(text)}:
            yield text
        case {"type": "image" | "audio" as kind, "data": str(data), "mimeType": str(mime_type)}:
            yield Media(data, mime_type, str(kind))
        case {"type": "resource", "resource": {"text": str(text)}}:
            yield text
        case {"type": "resource", "resource": {"blob": str(blob), **resource}}:
            given = cast(dict[str, Any], resource)
            yield Media(blob, given.get("mimeType") or "application/octet-stream", str(given.get("uri", "resource")))
        case {"type": "resource_link", "uri": str(uri)}:
            named = " ".join(str(block[key]) for key in ("name", "mimeType") if block.get(key))
            yield f"[{named}: {uri}]"
        case _:
            yield _json(block)


def _json(value: JsonObject) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
