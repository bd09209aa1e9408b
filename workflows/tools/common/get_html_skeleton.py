"""`get-html-skeleton`: the bare structure of a web page, for designing selectors."""

from pydantic import Field

from outlast.activities.web.contracts import HtmlSkeleton, HtmlSkeletonInput
from outlast.workflows.contracts.tool_calls import ToolResult
from outlast.workflows.handler_api.context import ToolContext
from outlast.workflows.tools.answers import MAX_ANSWER_BYTES, Answer, answered, describe_size
from outlast.workflows.tools.framework.tool import Arguments, Category, ToolAnnotations, tool


class SkeletonArguments(Arguments):
    """Which page, and which chunk of it."""

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


async def get_html_skeleton(ctx: ToolContext, arguments: SkeletonArguments) -> ToolResult:
    """Fetch the page and give the chunk."""
    page = await ctx.web.html_skeleton(HtmlSkeletonInput(url=arguments.url.strip(), chunk=arguments.chunk))
    return answered(SkeletonChunk.model_validate(page.model_dump()), _summary(page), page.html, _next_chunk(page))


def _summary(page: HtmlSkeleton) -> str:
    sizes = f"{describe_size(page.size_bytes)} of {describe_size(page.original_bytes)}"
    return f"Skeleton of {page.url} ({sizes}), chunk {page.chunk} of {page.total_chunks}:"


def _next_chunk(page: HtmlSkeleton) -> str | None:
    if page.chunk >= page.total_chunks:
        return None
    return f"There is more: call get-html-skeleton with the same url and chunk {page.chunk + 1}."


GET_HTML_SKELETON = (
    tool("get-html-skeleton")
    .category(Category.DEV)
    .describe(
        "Retrieve the HTML skeleton (clean structure) of a web page: no scripts, styles, comments, data URIs and long "
        "texts. Links, images, classes and data attributes stay, so that you can design selectors. JavaScript is not "
        "run. Large pages come in chunks."
    )
    .annotate(ToolAnnotations(title="Get HTML skeleton", read_only=True, idempotent=True, open_world=True))
    .args(SkeletonArguments)
    .output(SkeletonChunk)
    .server(get_html_skeleton)
    .output_threshold(MAX_ANSWER_BYTES)
    .build()
)
