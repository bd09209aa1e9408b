"""Lists of storages: their arguments, their page, and how to go on."""

from typing import Any

from outlast.activities.contracts import JsonObject
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.blocks import with_sentences
from outlast.workflows.tools.apify.schemas.build import answer, arguments, array, flag, number, text

_DEFAULT_LIMIT = 10
LIST_ANSWER: JsonObject = answer(
    {
        "total": number(),
        "count": number(),
        "offset": number(),
        "limit": number(),
        "items": array({"type": "object"}),
        "summary": text(),
        "nextStep": text(),
    },
    required=("total", "count", "offset", "limit", "items", "summary", "nextStep"),
)


def list_arguments(*, most: int) -> JsonObject:
    """Which page of a list."""
    return arguments(
        {
            "offset": number("Entries to skip.", default=0),
            "limit": number("Entries to list at most.", default=_DEFAULT_LIMIT, maximum=most),
            "desc": flag("Whether the newest come first.", default=False),
            "unnamed": flag("Whether those without a name are listed, too.", default=False),
        }
    )


async def listed(ctx: ToolContext, collection: str, given: dict[str, Any], *, tool: str, what: str) -> ToolResult:
    """The platform's page of a collection, and where it goes on."""
    page = await ctx.platform.get(
        collection,
        offset=int(given.get("offset", 0)),
        limit=int(given.get("limit") or _DEFAULT_LIMIT),
        desc=bool(given.get("desc", False)),
        unnamed=bool(given.get("unnamed", False)),
    )
    items, total, offset = page.get("items"), page.get("total"), page.get("offset")
    count = len(items) if isinstance(items, list) else 0
    end = (offset if isinstance(offset, int) else 0) + count
    more = isinstance(total, int) and end < total and count > 0
    step = f"The next page: {tool} with offset={end}." if more else "This is the last page."
    return with_sentences({**page, "count": count, "summary": f"{count} of {total} {what}.", "nextStep": step})
