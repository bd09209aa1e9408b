"""`search-apify-docs`, `fetch-apify-docs` and `report-problem`."""

from typing import Any
from urllib.parse import urlsplit

from temporalio import workflow

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.web.contracts import DocsPageInput, DocsSearchInput
from outlast.workflows.contracts.tool_calls import TextContent, ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.handler_api.failures import ToolError
from outlast.workflows.tools.apify import schemas
from outlast.workflows.tools.apify.answers import compact, failing_as, texts
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category, ToolAnnotations

_FETCH_APIFY_DOCS_DESCRIPTION = """
Read a whole page of the documentation of Apify or Crawlee by its address, as Markdown.
"""
_HOSTS = ("docs.apify.com", "crawlee.dev")


def _wording(given: dict[str, Any], envelope: ErrorEnvelope) -> str:
    url = unquoted(given["url"])
    if envelope.category in (ErrorCategory.PERMISSION, ErrorCategory.VALIDATION):
        return f'Invalid URL: "{url}". It must be the address of a page of the documentation, on {" or ".join(_HOSTS)}.'
    return f'Failed to fetch the documentation page at "{url}". {envelope.message}'


@failing_as(_wording)
async def fetch_apify_docs(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return the page, up to the server's limit."""
    url = unquoted(given["url"])
    if not _is_address(url):
        raise ToolError(
            ErrorEnvelope.permanent(ErrorCategory.VALIDATION, ctx.call.tool, "No page of the documentation.")
        )
    page = await ctx.web.docs_page(DocsPageInput(url=url, max_bytes=ctx.call.output.inline_limit_bytes))
    return texts({"url": url, "content": page.markdown}, f"Fetched content from {url}:\n\n{page.markdown}")


def _is_address(url: str) -> bool:
    """Return whether it is a whole address. The worker checks the site, because operators may have a copy."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("https", "http") and bool(parts.hostname)


FETCH_APIFY_DOCS = schemas.reading_tool(
    "fetch-apify-docs",
    "Fetch Apify docs",
    Category.DOCS,
    does=_FETCH_APIFY_DOCS_DESCRIPTION,
    arguments=schemas.arguments({"url": schemas.required_text("Address of the page.")}, required=("url",)),
    answer=schemas.answer({"url": schemas.text(), "content": schemas.text()}, required=("url", "content")),
    handler=fetch_apify_docs,
)


_SEARCH_APIFY_DOCS_DESCRIPTION = """
Search the documentation of Apify (platform, SDK, CLI, API) or of Crawlee by keywords. The answer has addresses of
pages, each with the text around the match.
"""
_DEFAULT_LIMIT = 5
_DEFAULT_SOURCE = "apify"
_SOURCES: dict[str, dict[str, str]] = {
    # Operators may have a copy of Apify's documentation at another address.
    _DEFAULT_SOURCE: {"outside": "https://crawlee.dev/"},
    "crawlee-js": {"under": "https://crawlee.dev/js/"},
    "crawlee-py": {"under": "https://crawlee.dev/python/"},
}
"""Addresses of each documentation."""


@failing_as(lambda _given, _envelope: None)
async def search_apify_docs(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Return a page of results. An empty one is not an error."""
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


SEARCH_APIFY_DOCS = schemas.reading_tool(
    "search-apify-docs",
    "Search Apify docs",
    Category.DOCS,
    does=_SEARCH_APIFY_DOCS_DESCRIPTION,
    arguments=schemas.arguments(
        {
            "docSource": schemas.text(
                "The documentation to search: of Apify, or of Crawlee for JavaScript or Python.",
                default=_DEFAULT_SOURCE,
                enum=[*_SOURCES],
            ),
            "query": schemas.required_text("Keywords, no sentences."),
            "limit": schemas.number("Maximum number of results.", default=_DEFAULT_LIMIT, minimum=1, maximum=20),
            "offset": schemas.number("Number of results to skip.", default=0),
        },
        required=("query",),
    ),
    answer=schemas.answer(
        {
            "results": schemas.array(
                schemas.answer({"url": schemas.text(), "content": schemas.text()}, required=("url",))
            ),
            "instructions": schemas.text("Next step."),
        },
        required=("results",),
    ),
    handler=search_apify_docs,
)


REPORT_DESCRIPTION = """
Report a problem with a tool, an Actor or an answer to the operators of this server: what was tried, what was expected,
what happened. Omit passwords, tokens and personal data. The report is only written to the server's log.
"""
_MAX_ID_CHARS = 200
_NAMED = (
    "If you cannot fix this, report it to the operators of this server with report-problem: what was tried, and this "
    "error."
)
_NOT_REPORTED = frozenset({ErrorCategory.PAYMENT, ErrorCategory.PERMISSION, ErrorCategory.AUTHENTICATION})
"""Failures that a person solves by paying, allowing or signing in: not problems of the server."""


def naming_reports(failed: ToolResult) -> ToolResult:
    """Add a text that names this tool to a tool error, if it is a problem to report."""
    if not failed.is_error or (failed.error is not None and failed.error.category in _NOT_REPORTED):
        return failed
    note = TextContent(text=_NAMED)
    if failed.raw_content is not None:
        return failed.model_copy(update={"raw_content": (*failed.raw_content, note.model_dump(mode="json"))})
    return failed.model_copy(update={"content": (*failed.content, note)})


async def report_problem(ctx: HandlerContext, given: dict[str, Any]) -> ToolResult:
    """Write a line to the log of the worker; the report itself is in the task's arguments."""
    facts = {
        "caller": ctx.call.caller.id,
        "about_actor": given.get("actorId"),
        "about_run": given.get("actorRunId"),
        "about_tools": given.get("relatedTools"),
        "characters": len(str(given["message"])),
    }
    workflow.logger.warning("a problem was reported", extra={"task": ctx.task_id, **facts})
    return texts({"reported": True}, f"Reported to those who run this server, as task {ctx.task_id}.")


REPORT_PROBLEM = (
    schemas.begun(
        "report-problem",
        Category.DEV,
        ToolAnnotations(title="Report a problem", idempotent=False, open_world=False),
        does=REPORT_DESCRIPTION,
        arguments=schemas.arguments(
            {
                "message": schemas.text(
                    "What was tried, what was expected, and what happened.", minLength=1, maxLength=2_000
                ),
                "actorId": schemas.text("The Actor that it is about.", maxLength=_MAX_ID_CHARS),
                "actorRunId": schemas.text("The run that it is about.", maxLength=_MAX_ID_CHARS),
                "relatedTools": schemas.array(schemas.text(maxLength=100), "The tools that it is about.", maxItems=20),
            },
            required=("message",),
        ),
        answer=schemas.answer({"reported": schemas.flag()}, required=("reported",)),
    )
    .server(report_problem)
    .build()
)
