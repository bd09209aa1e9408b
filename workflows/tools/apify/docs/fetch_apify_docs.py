"""`fetch-apify-docs`: read a page of the documentation."""

from typing import Any
from urllib.parse import urlsplit

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.web.contracts import DocsPageInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.runtime.context import ToolContext
from outlast.workflows.stubs.failures import ToolError
from outlast.workflows.tools.apify.answers.blocks import texts
from outlast.workflows.tools.apify.answers.failures import failing_as
from outlast.workflows.tools.apify.definition import reading_tool
from outlast.workflows.tools.apify.schemas.build import answer, arguments, required_text, text
from outlast.workflows.tools.framework.ids import unquoted
from outlast.workflows.tools.framework.tool import Category

DESCRIPTION = """
Read a whole page of the documentation of Apify or Crawlee by its address, as Markdown.
"""
_HOSTS = ("docs.apify.com", "crawlee.dev")


def _wording(given: dict[str, Any], envelope: ErrorEnvelope) -> str:
    url = unquoted(given["url"])
    if envelope.category in (ErrorCategory.PERMISSION, ErrorCategory.VALIDATION):
        return f'Invalid URL: "{url}". It must be the address of a page of the documentation, on {" or ".join(_HOSTS)}.'
    return f'Failed to fetch the documentation page at "{url}". {envelope.message}'


@failing_as(_wording)
async def fetch_apify_docs(ctx: ToolContext, given: dict[str, Any]) -> ToolResult:
    """The page, up to the server's limit."""
    url = unquoted(given["url"])
    if not _is_address(url):
        raise ToolError(
            ErrorEnvelope.permanent(ErrorCategory.VALIDATION, ctx.call.tool, "No page of the documentation.")
        )
    page = await ctx.web.docs_page(DocsPageInput(url=url, max_bytes=ctx.call.output.inline_limit_bytes))
    return texts({"url": url, "content": page.markdown}, f"Fetched content from {url}:\n\n{page.markdown}")


def _is_address(url: str) -> bool:
    """Whether it is a whole address. Which site is the documentation is for the worker: operators may have a copy."""
    try:
        parts = urlsplit(url)
    except ValueError:
        return False
    return parts.scheme in ("https", "http") and bool(parts.hostname)


FETCH_APIFY_DOCS = reading_tool(
    "fetch-apify-docs",
    "Fetch Apify docs",
    Category.DOCS,
    does=DESCRIPTION,
    arguments=arguments({"url": required_text("Address of the page.")}, required=("url",)),
    answer=answer({"url": text(), "content": text()}, required=("url", "content")),
    handler=fetch_apify_docs,
)
