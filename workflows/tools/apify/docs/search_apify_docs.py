"""`search-apify-docs`: find pages of the documentation."""

from typing import Any

from outlast.activities.contracts import JsonObject
from outlast.activities.web.contracts import DocsSearchInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.tools.apify.answers.blocks import compact, texts
from outlast.workflows.tools.apify.answers.failures import failing_as
from outlast.workflows.tools.apify.definition import reading_tool
from outlast.workflows.tools.apify.schemas.build import answer, arguments, array, number, required_text, text
from outlast.workflows.tools.framework.tool import Category

DESCRIPTION = """
Search the documentation of Apify (platform, SDK, CLI, API) or of Crawlee by keywords. The answer has addresses of
pages with the words around the match.
"""
_DEFAULT_LIMIT = 5
_DEFAULT_SOURCE = "apify"
_SOURCES: dict[str, dict[str, str]] = {
    # Operators may have a copy of Apify's documentation at another address.
    _DEFAULT_SOURCE: {"outside": "https://crawlee.dev/"},
    "crawlee-js": {"under": "https://crawlee.dev/js/"},
    "crawlee-py": {"under": "https://crawlee.dev/python/"},
}
"""Where each documentation lies."""


@failing_as(lambda _given, _envelope: None)
async def search_apify_docs(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """A page of results. That nothing fits is no error."""
    query = str(given["query"]).strip()
    found = await ctx.web.search_docs(
        DocsSearchInput(
            query=query,
            limit=int(given.get("limit", _DEFAULT_LIMIT)),
            offset=max(0, int(given.get("offset", 0))),
            **_SOURCES[given.get("docSource", _DEFAULT_SOURCE)],
        )
    )
    hint = (
        "Read a page with fetch-apify-docs and its url."
        if found.hits
        else "Nothing fits: try other or fewer keywords, or another docSource."
    )
    results: JsonObject = {
        "results": [{"url": hit.url, "content": hit.snippet} for hit in found.hits],
        "query": query,
        "count": len(found.hits),
    }
    return texts({**results, "instructions": hint}, compact(results), hint)


SEARCH_APIFY_DOCS = reading_tool(
    "search-apify-docs",
    "Search Apify docs",
    Category.DOCS,
    does=DESCRIPTION,
    arguments=arguments(
        {
            "docSource": text(
                "Whose documentation: of Apify, or of Crawlee for JavaScript or Python.",
                default=_DEFAULT_SOURCE,
                enum=[*_SOURCES],
            ),
            "query": required_text("Keywords, no sentences."),
            "limit": number("Results at most.", default=_DEFAULT_LIMIT, minimum=1, maximum=20),
            "offset": number("Results to skip.", default=0),
        },
        required=("query",),
    ),
    answer=answer(
        {
            "results": array(answer({"url": text(), "content": text()}, required=("url",))),
            "instructions": text("What to do next."),
        },
        required=("results",),
    ),
    handler=search_apify_docs,
)
