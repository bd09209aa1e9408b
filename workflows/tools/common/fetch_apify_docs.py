"""`fetch-apify-docs`: read a page or a section of the documentation."""

from pydantic import Field

from outlast.activities.bounds import Offset
from outlast.activities.web.contracts import DocsPageInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered, describe_size
from outlast.workflows.tools.framework.tool import Arguments, Category, limited_tool, reads


class FetchDocsArguments(Arguments):
    """A page, and the start of a part of it."""

    url: str = Field(
        min_length=1,
        max_length=2_048,
        description="URL of the documentation page, e.g. https://docs.apify.com/platform/actors. A `#fragment` gives "
        "that section only.",
    )
    offset: Offset = Field(default=0, description="For a long page: bytes to skip, as the last answer gives it.")


class DocsText(Answer):
    """A page, or a part of one, as Markdown."""

    url: str
    title: str
    content: str
    size_bytes: int = Field(description="Size of the whole page or section.")
    offset: int
    next_offset: int | None = Field(default=None, description="Offset of the next part; absent at the end.")
    sections: list[str] = Field(description="Fragments of the page's headings.")


async def fetch_apify_docs(ctx: HandlerContext, arguments: FetchDocsArguments) -> ToolResult:
    """Read the page, with a hint on the next part."""
    page = await ctx.web.docs_page(DocsPageInput(url=arguments.url.strip(), offset=arguments.offset))
    answer = DocsText(content=page.markdown, **page.model_dump())
    part = f", from byte {page.offset}" if page.offset else ""
    summary = f"{page.title or 'Page'} ({page.url}, {describe_size(page.size_bytes)}{part}):"
    more = (
        f"There is more: call fetch-apify-docs with the same url and offset {page.next_offset}, or with a #fragment "
        "for one section."
    )
    return answered(answer, summary, page.markdown, more if page.next_offset is not None else None)


FETCH_APIFY_DOCS = limited_tool(
    "fetch-apify-docs",
    Category.DOCS,
    reads("Fetch Apify docs"),
    "Fetch the full content of an Apify or Crawlee documentation page by its URL, as Markdown. Only pages of the "
    "documentation can be fetched. Name a section with `#fragment` to read only that.",
    fetch_apify_docs,
    FetchDocsArguments,
    DocsText,
).build()
