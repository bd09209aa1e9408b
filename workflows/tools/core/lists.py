"""Lists that tools return: which page, what is on it, and one definition of a list tool."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from outlast.activities.bounds import Offset
from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, Answer, answered, describe_list, next_list_hint
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, ToolAnnotations, tool


class PageArguments(Arguments):
    """Which page of a list."""

    offset: Offset = Field(default=0, description="Number of entries to skip at the start.")
    limit: int = Field(default=10, ge=1, le=100, description="Maximum number of entries to return.")


class NewestFirstArguments(PageArguments):
    """Which page of a list, and from which end."""

    desc: bool = Field(default=True, description="If true, newest first; if false, oldest first.")


class ListPage(Answer):
    """Position of a page in its list."""

    count: int = Field(description="Entries on this page.")
    total: int = Field(description="Entries on all pages.")
    offset: int
    next_offset: int | None = Field(default=None, description="Where to go on; absent on the last page.")


@dataclass(frozen=True)
class Listed:
    """A page as a list tool has read it. `lines` describe `entries`; the texts in `hints` follow, without those that
    are None."""

    entries: Sequence[Answer]
    lines: Sequence[str]
    total: int
    offset: int
    hints: tuple[str | None, ...] = ()


@dataclass(frozen=True)
class ListTool:
    """A tool that returns one page of a list."""

    name: str
    category: Category
    title: str
    description: str
    arguments: type[PageArguments]
    answer: type[Answer]
    """The model of a page: the fields of `ListPage`, and one for the entries."""
    entries: str
    """Name of the field for the entries."""
    things: str
    """Name of the entries for texts, in the plural."""
    read: Callable[[ToolContext, Any], Awaitable[Listed]]

    def build(self) -> Tool:
        """The definition."""
        return (
            tool(self.name)
            .category(self.category)
            .describe(self.description)
            .annotate(ToolAnnotations(title=self.title, read_only=True, idempotent=True, open_world=False))
            .args(self.arguments)
            .output(self.answer)
            .server(self.handle)
            .output_threshold(MAX_ANSWER_BYTES)
            .build()
        )

    async def handle(self, ctx: ToolContext, arguments: PageArguments) -> ToolResult:
        """Read the page, and write one line for each entry."""
        page = await self.read(ctx, arguments)
        count, total, offset = len(page.entries), page.total, page.offset
        fields: dict[str, Any] = {
            self.entries: list(page.entries),
            "count": count,
            "total": total,
            "offset": offset,
            "next_offset": next_offset(page.entries, total=total, offset=offset),
        }
        return answered(
            self.answer(**fields),
            describe_list(self.things, count=count, total=total, offset=offset),
            *page.lines,
            next_list_hint(self.name, count=count, total=total, offset=offset),
            *page.hints,
        )


def next_offset(shown: Sequence[object], *, total: int, offset: int) -> int | None:
    """The offset of the next page; None on the last page."""
    end = offset + len(shown)
    return end if shown and end < total else None


def entries_of(page: JsonObject) -> list[JsonObject]:
    """The entries of a page (Apify API v2, `items`)."""
    items = page.get("items")
    return [entry for entry in items if isinstance(entry, dict)] if isinstance(items, list) else []


def total_of(page: JsonObject) -> int:
    """The number of entries on all pages."""
    total = page.get("total")
    return total if isinstance(total, int) else len(entries_of(page))
