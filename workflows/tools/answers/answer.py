"""Building blocks of answers: structured and in words, bounded in bytes."""

from typing import Final

from pydantic import BaseModel, ConfigDict, JsonValue
from pydantic.alias_generators import to_camel

from outlast.workflows.contracts.tool_calls import Content, Offers, TextContent, ToolResult
from outlast.workflows.runtime.context import ToolContext

MAX_ANSWER_BYTES: Final = 65_536
"""Limit of the text of one answer. The structured form holds the same content and has the same limit."""

MAX_CONTENT_BYTES: Final = MAX_ANSWER_BYTES - 8_192
"""Limit of the content itself (rows, text, a page); the rest is for the text around it."""


class Answer(BaseModel):
    """Base of every tool's structured answer: frozen, camelCase as MCP clients expect it."""

    model_config = ConfigDict(frozen=True, alias_generator=to_camel, populate_by_name=True)

    def structured(self) -> dict[str, JsonValue]:
        """The answer as `ToolResult.structured`; fields without a value are left out."""
        return self.model_dump(mode="json", by_alias=True, exclude_none=True)


def answered(answer: Answer, *parts: str | None, more: tuple[Content, ...] = ()) -> ToolResult:
    """A result with `answer` as its structured form, `parts` as its text, one per line, and the blocks of `more`."""
    text = "\n".join(part for part in parts if part)
    return ToolResult(content=(TextContent(text=text), *more), structured=answer.structured())


ROW_READERS: Final = ("get-dataset-items", "get-actor-output")
"""Tools that read rows of a dataset, the most able first."""


def first_offered(offers: Offers, *tools: str) -> str | None:
    """The first of `tools` that the caller may call, for hints."""
    return next((name for name in tools if offers(name)), None)


def hint(ctx: ToolContext, tool: str, text: str) -> str | None:
    """`text`, which names `tool`; None when the caller's connection does not offer it."""
    return text if ctx.offers(tool) else None
