"""Activities on web pages: searching and reading the documentation, the bare structure of any public page.

Signatures only: workflow code and front doors import this, and parsers of HTML would be a tenth of their start.
"""

from datetime import timedelta
from typing import Protocol

from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.heartbeat import activity_scope
from outlast.activities.web.contracts import (
    DocsHits,
    DocsPage,
    DocsPageInput,
    DocsSearchInput,
    HtmlSkeleton,
    HtmlSkeletonInput,
)

WEB_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=5), maximum_attempts=3
)
"""A page that cannot be had is worth a second look, not a task that waits for hours."""


class Docs(Protocol):
    """The documentation (`outlast.activities.web.docs_library`)."""

    async def search(self, request: DocsSearchInput) -> DocsHits:
        """The sections that fit best."""
        ...

    async def page(self, request: DocsPageInput) -> DocsPage:
        """A page or a section."""
        ...


class Skeletons(Protocol):
    """Bare structures of pages (`outlast.activities.web.skeletons`)."""

    async def chunk(self, request: HtmlSkeletonInput) -> HtmlSkeleton:
        """One chunk of a page."""
        ...


class WebActivities:
    """Activities that read the web. They act for nobody: no caller's token goes with them."""

    def __init__(self, docs: Docs, skeletons: Skeletons) -> None:
        """Read through `docs` and `skeletons`, which know what may be fetched."""
        self._docs = docs
        self._skeletons = skeletons

    @activity.defn
    async def search_docs(self, request: DocsSearchInput) -> DocsHits:
        """The sections of the documentation that fit best."""
        async with activity_scope():
            return await self._docs.search(request)

    @activity.defn
    async def fetch_docs_page(self, request: DocsPageInput) -> DocsPage:
        """A page of the documentation, or the section that the address' fragment names."""
        async with activity_scope():
            return await self._docs.page(request)

    @activity.defn
    async def fetch_html_skeleton(self, request: HtmlSkeletonInput) -> HtmlSkeleton:
        """One chunk of a page's bare structure. Fails with `not_found` for a chunk that there is not."""
        async with activity_scope():
            return await self._skeletons.chunk(request)
