"""`search-apify-docs`: find pages of the documentation."""

from pydantic import Field

from outlast.activities.web.contracts import DocsHits, DocsSearchInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import (
    MAX_ANSWER_BYTES,
    Answer,
    answered,
    describe_list,
    hint,
    next_list_hint,
)
from outlast.workflows.tools.framework.tool import Arguments, Category, ToolAnnotations, tool


class SearchDocsArguments(Arguments):
    """What to look for, and which page of the results."""

    query: str = Field(
        min_length=1,
        max_length=500,
        description="Keywords, no full sentences or questions: `standby actor` finds the pages about these words.",
    )
    limit: int = Field(default=5, ge=1, le=20, description="Maximum number of results.")
    offset: int = Field(default=0, ge=0, le=500, description="Number of results to skip.")


class FoundPage(Answer):
    """A page of the documentation, and the section of it that fits best."""

    url: str
    title: str
    content: str = Field(description="Words around the match.")


class FoundPages(Answer):
    """A page of results."""

    results: list[FoundPage]
    query: str
    count: int = Field(description="Results on this page.")
    total: int = Field(description="Results on all pages.")
    offset: int
    next_offset: int | None = Field(default=None, description="Where to go on; absent on the last page.")


async def search_apify_docs(ctx: ToolContext, arguments: SearchDocsArguments) -> ToolResult:
    """Search, a result to a line."""
    found = await ctx.web.search_docs(
        DocsSearchInput(query=arguments.query, offset=arguments.offset, limit=arguments.limit)
    )
    if found.total == 0:
        return answered(
            _answer(arguments, found),
            f"Nothing in the documentation's {found.pages_indexed} pages fits {arguments.query!r}. "
            "Try other or fewer keywords.",
        )
    count, offset = len(found.hits), found.offset
    return answered(
        _answer(arguments, found),
        describe_list("results", count=count, total=found.total, offset=offset),
        *(f"- {hit.title}\n  {hit.url}\n  {hit.snippet}" for hit in found.hits),
        next_list_hint("search-apify-docs", count=count, total=found.total, offset=offset),
        hint(ctx, "fetch-apify-docs", "Read a page, or the section that its address names, with fetch-apify-docs."),
    )


def _answer(arguments: SearchDocsArguments, found: DocsHits) -> FoundPages:
    end = found.offset + len(found.hits)
    return FoundPages(
        results=[FoundPage(url=hit.url, title=hit.title, content=hit.snippet) for hit in found.hits],
        query=arguments.query,
        count=len(found.hits),
        total=found.total,
        offset=found.offset,
        next_offset=end if found.hits and end < found.total else None,
    )


SEARCH_APIFY_DOCS = (
    tool("search-apify-docs")
    .category(Category.DOCS)
    .describe(
        "Search Apify and Crawlee documentation using full-text search. The results have the page's address, which may "
        "include an anchor, and a limited piece of content that matches the query."
    )
    .annotate(ToolAnnotations(title="Search Apify docs", read_only=True, idempotent=True, open_world=False))
    .args(SearchDocsArguments)
    .output(FoundPages)
    .server(search_apify_docs)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
