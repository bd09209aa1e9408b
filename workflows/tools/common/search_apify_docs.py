"""`search-apify-docs`: find pages of the documentation."""

from pydantic import Field

from outlast.activities.web.contracts import DocsSearchInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered, describe_list, hint, next_list_hint
from outlast.workflows.tools.core.lists import ListPage, position
from outlast.workflows.tools.framework.tool import Arguments, Category, limited_tool, reads


class SearchDocsArguments(Arguments):
    """A query, and the page of its results."""

    query: str = Field(
        min_length=1,
        max_length=500,
        description="Keywords, no full sentences or questions: `standby actor` finds the pages about these words.",
    )
    limit: int = Field(default=5, ge=1, le=20, description="Maximum number of results.")
    offset: int = Field(default=0, ge=0, le=500, description="Number of results to skip.")


class FoundPage(Answer):
    """A page of the documentation, and its best section."""

    url: str
    title: str
    content: str = Field(description="Words around the match.")


class FoundPages(ListPage):
    """A page of results."""

    results: list[FoundPage]
    query: str


async def search_apify_docs(ctx: HandlerContext, arguments: SearchDocsArguments) -> ToolResult:
    """Search the documentation."""
    found = await ctx.web.search_docs(DocsSearchInput(**arguments.model_dump()))
    count, offset = len(found.hits), found.offset
    answer = FoundPages(
        results=[FoundPage(url=hit.url, title=hit.title, content=hit.snippet) for hit in found.hits],
        query=arguments.query,
        **position(found.hits, found.total, offset),
    )
    if found.total == 0:
        return answered(
            answer,
            f"Nothing in the documentation's {found.pages_indexed} pages fits {arguments.query!r}. "
            "Try other or fewer keywords.",
        )
    return answered(
        answer,
        describe_list("results", count=count, total=found.total, offset=offset),
        *(f"- {hit.title}\n  {hit.url}\n  {hit.snippet}" for hit in found.hits),
        next_list_hint("search-apify-docs", count=count, total=found.total, offset=offset),
        hint(ctx, "fetch-apify-docs", "Read a page, or the section that its address names, with fetch-apify-docs."),
    )


SEARCH_APIFY_DOCS = limited_tool(
    "search-apify-docs",
    Category.DOCS,
    reads("Search Apify docs"),
    "Search Apify and Crawlee documentation using full-text search. The results have the page's address, which may "
    "include an anchor, and a limited piece of content that matches the query.",
    search_apify_docs,
    SearchDocsArguments,
    FoundPages,
).build()
