"""Reading the documentation and web pages, from workflow code."""

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from outlast.activities.web.activities import WEB_RETRY_POLICY, WebActivities

from outlast.activities.web.contracts import (
    DocsHits,
    DocsPage,
    DocsPageInput,
    DocsSearchInput,
    HtmlSkeleton,
    HtmlSkeletonInput,
)
from outlast.workflows.contracts.tool_calls import ToolCall
from outlast.workflows.stubs.call_activity import call_activity


class Web:
    """Reads documentation and web pages. Every method raises `ToolError` when that fails."""

    def __init__(self, call: ToolCall) -> None:
        """Read for `call`. The requests carry nothing of its caller."""
        self._call = call

    async def search_docs(self, request: DocsSearchInput) -> DocsHits:
        """The sections of the documentation that fit best."""
        method = WebActivities.search_docs
        return await call_activity(
            self._call, method, request, summary="search the docs", retry_policy=WEB_RETRY_POLICY
        )

    async def docs_page(self, request: DocsPageInput) -> DocsPage:
        """A page of the documentation."""
        method = WebActivities.fetch_docs_page
        return await call_activity(
            self._call, method, request, summary="fetch a docs page", retry_policy=WEB_RETRY_POLICY
        )

    async def html_skeleton(self, request: HtmlSkeletonInput) -> HtmlSkeleton:
        """The bare structure of a page."""
        method = WebActivities.fetch_html_skeleton
        return await call_activity(self._call, method, request, summary="fetch a page", retry_policy=WEB_RETRY_POLICY)
