"""`fetch-apify-docs`: read a page of the documentation, or one section of it."""

from pydantic import Field

from outlast.activities.bounds import Offset
from outlast.activities.web.contracts import DocsPage, DocsPageInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, Answer, answered, describe_size
from outlast.workflows.tools.framework.tool import Arguments, Category, ToolAnnotations, tool


class FetchDocsArguments(Arguments):
    """Which page, and for a long one from where on."""

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
    next_offset: int | None = Field(default=None, description="Where to go on; absent at the end.")
    sections: list[str] = Field(description="Fragments of the page's headings.")


async def fetch_apify_docs(ctx: ToolContext, arguments: FetchDocsArguments) -> ToolResult:
    """Read the page, and say how to go on."""
    page = await ctx.web.docs_page(DocsPageInput(url=arguments.url.strip(), offset=arguments.offset))
    answer = DocsText(
        url=page.url,
        title=page.title,
        content=page.markdown,
        size_bytes=page.size_bytes,
        offset=page.offset,
        next_offset=page.next_offset,
        sections=list(page.sections),
    )
    return answered(answer, _summary(page), "", page.markdown, _next_part(page))


def _summary(page: DocsPage) -> str:
    part = f", from byte {page.offset}" if page.offset else ""
    return f"{page.title or 'Page'} ({page.url}, {describe_size(page.size_bytes)}{part}):"


def _next_part(page: DocsPage) -> str | None:
    if page.next_offset is None:
        return None
    return (
        f"There is more: call fetch-apify-docs with the same url and offset {page.next_offset}, or with a #fragment "
        "for one section."
    )


FETCH_APIFY_DOCS = (
    tool("fetch-apify-docs")
    .category(Category.DOCS)
    .describe(
        "Fetch the full content of an Apify or Crawlee documentation page by its URL, as Markdown. Only pages of the "
        "documentation can be fetched. Name a section with `#fragment` to read only that."
    )
    .annotate(ToolAnnotations(title="Fetch Apify docs", read_only=True, idempotent=True, open_world=False))
    .args(FetchDocsArguments)
    .output(DocsText)
    .server(fetch_apify_docs)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
