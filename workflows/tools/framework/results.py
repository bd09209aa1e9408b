"""Conversion of handlers' return values to `ToolResult`, with JSON as pydantic writes it and with valid text."""

import inspect
import json
from collections.abc import Sequence
from typing import Any, cast

from pydantic import BaseModel

from outlast.activities.json_values import is_too_deep
from outlast.activities.unicode_text import valid_json, valid_text
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.contracts.written_json import UnusableAnswer, as_json

MOST_LEVELS = 180
"""Deepest nesting of an answer. pydantic reads 200 levels, including the models around it."""
CHANGES_META = "outlast/changedArguments"
"""Key in an answer's `_meta`: changes of arguments that did not match the schema."""


def with_changes(result: ToolResult, changes: Sequence[str], *, in_words: bool = True) -> ToolResult:
    """Add a note on `changes` of the call's arguments to `_meta`, and with `in_words` also to the text."""
    if not changes:
        return result
    meta = {**result.meta, CHANGES_META: list(changes)}
    if not in_words:
        return result.model_copy(update={"meta": meta})
    note = TextContent(text=f"Note: arguments were read as the schema has them: {'; '.join(changes)}.")
    if result.raw_content is not None:
        content = (*result.raw_content, note.model_dump(mode="json"))
        return result.model_copy(update={"raw_content": content, "meta": meta})
    return result.model_copy(update={"content": (*result.content, note), "meta": meta})


def as_result(value: object) -> ToolResult:
    """Convert text, a pydantic model or a dict to a result with valid text.

    Raises `UnusableAnswer` for other values, for a value that cannot be written as JSON, and for more levels than a
    workflow task can read, which would fail until the call's deadline.
    """
    result = _as_result(value)
    if is_too_deep(result.structured, MOST_LEVELS) or is_too_deep(list(result.raw_content or ()), MOST_LEVELS):
        raise UnusableAnswer(f"The tool's answer is nested more than {MOST_LEVELS} levels deep.")
    return result


def _as_result(value: object) -> ToolResult:
    if isinstance(value, ToolResult):
        return _with_valid_text(value)
    if isinstance(value, str):
        return ToolResult(content=(TextContent(text=valid_text(value)),))
    if isinstance(value, BaseModel | dict):
        structured = as_json(cast("BaseModel | dict[Any, Any]", value))
        return ToolResult(
            content=(TextContent(text=json.dumps(structured, ensure_ascii=False)),), structured=structured
        )
    if inspect.isawaitable(value):
        raise UnusableAnswer("The tool returned a coroutine: it calls an async function without `await`.")
    raise UnusableAnswer(
        f"A tool answers with text, a dict, a pydantic model or a ToolResult, not {type(value).__name__}. A function "
        "under @tool can return other values if it declares its return type."
    )


def _with_valid_text(result: ToolResult) -> ToolResult:
    found: dict[str, object] = {
        "content": tuple(_valid_block(block) if isinstance(block, TextContent) else block for block in result.content),
        "structured": valid_json(result.structured),
        "meta": valid_json(result.meta),
    }
    if result.raw_content is not None:
        found["raw_content"] = tuple(valid_json(block) for block in result.raw_content)
    changed = {name: value for name, value in found.items() if value != getattr(result, name)}
    return result.model_copy(update=changed) if changed else result


def _valid_block(block: TextContent) -> TextContent:
    text = valid_text(block.text)
    return block if text is block.text else block.model_copy(update={"text": text})
