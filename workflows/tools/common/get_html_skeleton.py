"""`get-html-skeleton`: the bare structure of a web page, for designing selectors."""

from pydantic import Field

from outlast.activities.web.contracts import HtmlSkeletonInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import HandlerContext
from outlast.workflows.tools.answers import Answer, answered, describe_size
from outlast.workflows.tools.framework.tool import Arguments, Category, limited_tool, reads


class SkeletonArguments(Arguments):
    """A page, and a chunk of it."""

    url: str = Field(min_length=1, max_length=2_048, description="URL of the web page.")
    chunk: int = Field(default=1, ge=1, le=1_000, description="Chunk to retrieve, from 1; the answer says how many.")


class SkeletonChunk(Answer):
    """One chunk of a page's structure."""

    url: str
    title: str
    html: str
    chunk: int
    total_chunks: int
    size_bytes: int = Field(description="Size of the whole skeleton.")
    original_bytes: int = Field(description="Size of the page as it was served.")


async def get_html_skeleton(ctx: HandlerContext, arguments: SkeletonArguments) -> ToolResult:
    """Fetch the page and return the chunk."""
    page = await ctx.web.html_skeleton(HtmlSkeletonInput(url=arguments.url.strip(), chunk=arguments.chunk))
    sizes = f"{describe_size(page.size_bytes)} of {describe_size(page.original_bytes)}"
    summary = f"Skeleton of {page.url} ({sizes}), chunk {page.chunk} of {page.total_chunks}:"
    more = f"There is more: call get-html-skeleton with the same url and chunk {page.chunk + 1}."
    answer = SkeletonChunk.model_validate(page.model_dump())
    return answered(answer, summary, page.html, more if page.chunk < page.total_chunks else None)


GET_HTML_SKELETON = limited_tool(
    "get-html-skeleton",
    Category.DEV,
    reads("Get HTML skeleton", open_world=True),
    "Retrieve the HTML skeleton (clean structure) of a web page: no scripts, styles, comments, data URIs and long "
    "texts. Links, images, classes and data attributes stay, so that you can design selectors. JavaScript is not "
    "run. Large pages come in chunks.",
    get_html_skeleton,
    SkeletonArguments,
    SkeletonChunk,
).build()
