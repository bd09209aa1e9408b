"""`invalid`: an unlisted tool that answers calls of tools that do not exist.

The answer repeats the call, and lists the available tools and similar names.
"""

import difflib
import json
import re
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import Field, JsonValue

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import redact
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.framework.tool import Arguments, Category, reads, tool

MAX_NAME_CHARS = 128
"""No tool has a longer name; a longer invented one is cut."""
MAX_INPUT_CHARS = 1_000
"""Most characters of the input in the answer."""
_SECRET_NAME = re.compile(r"(?i)token|secret|passw|api[_-]?key|authorization|cookie|credential")


class InvalidArguments(Arguments):
    """The call, and the available tools."""

    tool: str = Field(max_length=MAX_NAME_CHARS, description="The name that was called.")
    input: str = Field(default="", max_length=MAX_INPUT_CHARS, description="The arguments, as JSON, cut and redacted.")
    category: ErrorCategory = Field(default=ErrorCategory.NOT_FOUND, description="Kind of failure.")
    allowed_tools: tuple[str, ...] = Field(default=(), description="The tools that may be called.")


def invalid_arguments_of(name: str, arguments: JsonValue, allowed: Sequence[str]) -> dict[str, JsonValue]:
    """Return the arguments of `invalid` for a call of the unknown tool `name`."""
    made = InvalidArguments(tool=_bounded_name(name), input=shown_input(arguments), allowed_tools=tuple(allowed))
    return made.model_dump(mode="json")


def invalid_result(name: str, arguments: JsonValue, allowed: Sequence[str]) -> ToolResult:
    """Return the answer of `invalid`, for entry points that start no task for an unknown tool."""
    return _answer(InvalidArguments.model_validate(invalid_arguments_of(name, arguments, allowed)))


def unknown_tool_envelope(
    name: str, allowed: Sequence[str], otherwise: str = "Choose one of the available tools."
) -> ErrorEnvelope:
    """Return the error for an unknown tool, with the available tools. The hint is similar names, or `otherwise`."""
    name = _bounded_name(name)
    near = difflib.get_close_matches(name, allowed, n=3)
    hint = f"Did you mean {' or '.join(near)}?" if near else otherwise
    return ErrorEnvelope.permanent(
        ErrorCategory.NOT_FOUND, name, f"There is no tool {name!r}.", hint=hint, allowed_tools=tuple(allowed)
    )


def shown_input(arguments: JsonValue) -> str:
    """Return `arguments` as JSON without likely secrets, at most `MAX_INPUT_CHARS` long."""
    text = redact(json.dumps(_without_secrets(arguments), ensure_ascii=False))
    return text if len(text) <= MAX_INPUT_CHARS else text[: MAX_INPUT_CHARS - 1] + "…"


def _bounded_name(name: str) -> str:
    name = redact(name)
    return name if len(name) <= MAX_NAME_CHARS else name[: MAX_NAME_CHARS - 1] + "…"


def _without_secrets(value: JsonValue) -> JsonValue:
    if isinstance(value, list):
        return [_without_secrets(part) for part in value]
    if not isinstance(value, Mapping):
        return value
    entries = cast(Mapping[str, JsonValue], value)
    return {key: "***" if _SECRET_NAME.search(key) else _without_secrets(part) for key, part in entries.items()}


def _answer(arguments: InvalidArguments) -> ToolResult:
    envelope = unknown_tool_envelope(arguments.tool, arguments.allowed_tools)
    envelope = envelope.model_copy(update={"category": arguments.category})
    structured = arguments.model_dump(mode="json")
    return ToolResult.failed(envelope).model_copy(update={"structured": structured})


async def invalid(_ctx: HandlerContext, arguments: InvalidArguments) -> ToolResult:
    """Return the error for an unknown tool."""
    return _answer(arguments)


INVALID = (
    tool("invalid")
    .category(Category.DEV)
    .describe("Answers calls of tools that do not exist. Never listed, and not to be called.")
    .annotate(reads("Unknown tool"))
    .args(InvalidArguments)
    .server(invalid)
    .build()
)
