"""The content blocks of answers: the structured form as compact JSON, and what it means in sentences."""

import json
from collections.abc import Sequence

from pydantic import JsonValue

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import Content, TextContent, ToolResult

_SENTENCES = ("summary", "nextStep")
_LESS = "Ask the tool for less."


def with_sentences(structured: JsonObject, *, whole_text: bool = False, more: tuple[Content, ...] = ()) -> ToolResult:
    """Two texts: the data as JSON, and `summary` and `nextStep` in lines of their own.

    With `whole_text` the JSON holds these two as well.
    """
    shown = structured if whole_text else {name: value for name, value in structured.items() if name not in _SENTENCES}
    lines = "\n".join(str(structured[name]) for name in _SENTENCES if name in structured)
    return ToolResult(content=(TextContent(text=compact(shown)), TextContent(text=lines), *more), structured=structured)


def only_json(structured: JsonObject) -> ToolResult:
    """One text: the data as JSON."""
    return ToolResult(content=(TextContent(text=compact(structured)),), structured=structured)


def texts(structured: JsonObject, *blocks: str) -> ToolResult:
    """Texts, and the structured form beside them."""
    return ToolResult(content=tuple(TextContent(text=block) for block in blocks), structured=structured)


def compact(value: JsonValue) -> str:
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def bounded(content: Sequence[JsonObject], limit_bytes: int) -> tuple[JsonObject, ...]:
    """Content blocks of an MCP server, as they are as long as they fit into `limit_bytes` together.

    A text that does not fit is cut, and says so in its last line; any other block is replaced by a text that describes
    it.
    """
    kept: list[JsonObject] = []
    left = limit_bytes
    for block in content:
        size = len(compact(block).encode())
        kept.append(block if size <= left else _cut(block, size, max(left, 0)))
        left -= size
    return tuple(kept)


def first_that_fit(values: Sequence[JsonValue], limit_bytes: int) -> list[JsonValue]:
    """The first of `values` whose JSON takes no more than `limit_bytes` together."""
    kept: list[JsonValue] = []
    for value in values:
        limit_bytes -= len(compact(value).encode()) + len(",")
        if limit_bytes < 0:
            break
        kept.append(value)
    return kept


def smallest_that_fit(fields: JsonObject, limit_bytes: int) -> JsonObject:
    """`fields` without the largest ones, as far as the JSON of the others takes more than `limit_bytes`."""
    sizes = {name: len(compact({name: value}).encode()) for name, value in fields.items()}
    left = sum(sizes.values())
    too_many: set[str] = set()
    for name in sorted(sizes, key=lambda name: -sizes[name]):
        if left <= limit_bytes:
            break
        too_many.add(name)
        left -= sizes[name]
    return {name: value for name, value in fields.items() if name not in too_many}


def _cut(block: JsonObject, size: int, left: int) -> JsonObject:
    words = block.get("text")
    if block.get("type") != "text" or not isinstance(words, str) or left == 0:
        return {"type": "text", "text": f"[A block of type {block.get('type')} and {size} bytes is too large. {_LESS}]"}
    # What JSON escapes takes more than its characters, so the cut is made on the characters' share of the size.
    end = len(words) * left // size
    return {**block, "text": f"{words[:end]}…\n[Cut: {end} of {len(words)} characters. {_LESS}]"}
