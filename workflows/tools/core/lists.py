"""Lists that tools return: arguments and answer of a page, and the definition of a list tool."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import Field

from outlast.activities.bounds import Offset
from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered, describe_list, next_list_hint
from outlast.workflows.tools.framework.tool import Arguments, Category, Tool, limited_tool, reads


class PageArguments(Arguments):
    """Page of a list."""

    offset: Offset = Field(default=0, description="Number of entries to skip at the start.")
    limit: int = Field(default=10, ge=1, le=100, description="Maximum number of entries to return.")


class NewestFirstArguments(PageArguments):
    """Page of a list, and its order."""

    desc: bool = Field(default=True, description="If true, newest first; if false, oldest first.")


class ListPage(Answer):
    """Position of a page in its list."""

    count: int = Field(description="Entries on this page.")
    total: int = Field(description="Entries on all pages.")
    offset: int
    next_offset: int | None = Field(default=None, description="Offset of the next page; absent on the last page.")


@dataclass(frozen=True)
class Listed:
    """A page that a list tool has read. `lines` describe `entries`; `hints` follow, without those that are None."""

    entries: Sequence[Answer]
    lines: Sequence[str]
    total: int
    offset: int
    hints: tuple[str | None, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ListTool:
    """A tool that returns one page of a list."""

    name: str
    category: Category
    title: str
    description: str
    arguments: type[PageArguments]
    answer: type[ListPage]
    """Model of a page, with a field for the entries."""
    entries: str
    """Name of that field, and without a text in `things` of the entries in the plural."""
    things: str | None = None
    read: Callable[[HandlerContext, Any], Awaitable[Listed]]

    def build(self) -> Tool:
        """Return the definition."""
        hints = reads(self.title)
        args, output = self.arguments, self.answer
        return limited_tool(self.name, self.category, hints, self.description, self._handle, args, output).build()

    async def _handle(self, ctx: HandlerContext, arguments: PageArguments) -> ToolResult:
        page = await self.read(ctx, arguments)
        count, total, offset = len(page.entries), page.total, page.offset
        fields: dict[str, Any] = {self.entries: list(page.entries), **position(page.entries, total, offset)}
        return answered(
            self.answer(**fields),
            describe_list(self.things or self.entries, count=count, total=total, offset=offset),
            *page.lines,
            next_list_hint(self.name, count=count, total=total, offset=offset),
            *page.hints,
        )


def position(shown: Sequence[object], total: int, offset: int) -> dict[str, Any]:
    """Return the fields of `ListPage` for a page with the entries `shown`."""
    end = offset + len(shown)
    next_offset = end if shown and end < total else None
    return {"count": len(shown), "total": total, "offset": offset, "next_offset": next_offset}


def entries_of(page: JsonObject) -> list[JsonObject]:
    """Return the entries of a page (Apify API v2, `items`)."""
    items = page.get("items")
    return [entry for entry in items if isinstance(entry, dict)] if isinstance(items, list) else []


def total_of(page: JsonObject) -> int:
    """Return the number of entries on all pages."""
    total = page.get("total")
    return total if isinstance(total, int) else len(entries_of(page))


async def platform_page(ctx: HandlerContext, collection: str, arguments: NewestFirstArguments) -> JsonObject:
    """Read a page of a collection of the platform."""
    return await ctx.platform.get(collection, offset=arguments.offset, limit=arguments.limit, desc=arguments.desc)
