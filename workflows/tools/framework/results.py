"""Turns the values that handlers return into `ToolResult`, with JSON as pydantic writes it and with valid text."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, cast

from pydantic import BaseModel, JsonValue
from pydantic_core import to_jsonable_python

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope, Violation
from outlast.activities.printable import printable
from outlast.activities.unicode_text import valid_json, valid_text
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult

_MAX_PATH_CHARS = 200
CHANGES_META = "outlast/changedArguments"
"""Key in an answer's `_meta`: how arguments were read that did not fit the schema."""


class UnusableAnswer(TypeError):
    """A tool has answered with a value that cannot be its answer. The message names its place and its type only."""

    def envelope(self, tool: str) -> ErrorEnvelope:
        """The error for a call of `tool`, which is not repeated: the tool has done its work."""
        return ErrorEnvelope.permanent(
            ErrorCategory.UNKNOWN,
            tool,
            str(self),
            hint="The tool was executed; check what it has done before you call it again. Its author has to answer "
            "with text, or with values that pydantic can write as JSON.",
        )


def with_changes(result: ToolResult, changes: Sequence[str], *, in_words: bool = True) -> ToolResult:
    """The answer with a note on `changes` of the call's arguments; the answer itself if there are none.

    The note is in `_meta`, and with `in_words` in a text as well.
    """
    if not changes:
        return result
    if not in_words:
        return result.model_copy(update={"meta": {**result.meta, CHANGES_META: list(changes)}})
    note = TextContent(text=f"Note: arguments were read as the schema has them: {'; '.join(changes)}.")
    meta = {**result.meta, CHANGES_META: list(changes)}
    if result.raw_content is not None:
        content = (*result.raw_content, note.model_dump(mode="json"))
        return result.model_copy(update={"raw_content": content, "meta": meta})
    return result.model_copy(update={"content": (*result.content, note), "meta": meta})


def as_result(value: object) -> ToolResult:
    """Text, a pydantic model or a dict as a result, with valid text.

    Raises `UnusableAnswer` for other values, and for a dict or a model with a value that cannot be written as JSON.
    """
    if isinstance(value, ToolResult):
        return _with_valid_text(value)
    if isinstance(value, str):
        return ToolResult(content=(TextContent(text=valid_text(value)),))
    if isinstance(value, BaseModel | dict):
        structured = as_json(cast("BaseModel | dict[Any, Any]", value))
        return ToolResult(
            content=(TextContent(text=json.dumps(structured, ensure_ascii=False)),), structured=structured
        )
    kind = type(value).__name__
    raise UnusableAnswer(f"A tool answers with text, a dict, a pydantic model or a ToolResult, not {kind}.")


def as_json(value: BaseModel | dict[Any, Any]) -> dict[str, JsonValue]:
    """A model or a dict as a JSON object, as pydantic writes it: dates as text, sets as lists.

    Raises `UnusableAnswer`.
    """
    try:
        written: object = _written(value)
    except (ValueError, TypeError, RecursionError) as error:
        raise _not_json(value, error) from None
    if not isinstance(written, dict):
        raise _unwritable((), f"written as {type(written).__name__}, and not as an object")
    return valid_json(cast(dict[str, JsonValue], written))


def _written(value: object) -> object:
    return to_jsonable_python(value, by_alias=True, inf_nan_mode="null")


def _not_json(value: object, error: Exception, path: tuple[str, ...] = ()) -> UnusableAnswer:
    """The error for the innermost value that cannot be written."""
    for name, part in _parts(value):
        try:
            _written(part)
        except (ValueError, TypeError, RecursionError) as inner:
            if len(path) < _MAX_PATH_CHARS:
                return _not_json(part, inner, (*path, name))
    if isinstance(value, bytes | bytearray):
        return _unwritable(path, "bytes that are not text in UTF-8; encode them, for example as Base64")
    if isinstance(error, RecursionError) or "depth" in str(error) or "Circular" in str(error):
        return _unwritable(path[:3], "nested too deeply, or contains itself")
    return _unwritable(path, f"of type {type(value).__name__}")


def _unwritable(path: tuple[str, ...], reason: str) -> UnusableAnswer:
    place = printable(Violation.at(path, "").path)[:_MAX_PATH_CHARS]
    return UnusableAnswer(
        f"The tool's answer cannot be written as JSON: {f'the value at {place}' if place else 'it'} is {reason}."
    )


def _parts(value: object) -> Iterable[tuple[str, object]]:
    if isinstance(value, BaseModel):
        return list(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value)]
    if isinstance(value, Mapping):
        return [(str(name), part) for name, part in cast(Mapping[object, object], value).items()]
    if isinstance(value, list | tuple | set | frozenset):
        return [(str(number), part) for number, part in enumerate(cast(Iterable[object], value))]
    return ()


def _with_valid_text(result: ToolResult) -> ToolResult:
    """`result` itself if all its text is valid."""
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
