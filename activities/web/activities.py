"""Activities that read the web: search and read the documentation, fetch the structure of any public page. Signatures
only: workflow code and the API import this module, and HTML parsers would slow down their start.
"""

from datetime import timedelta
from typing import Protocol

from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.heartbeat import activity_scope
from outlast.activities.web import contracts as web

WEB_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=5), maximum_attempts=3
)
"""A page that cannot be fetched is retried twice: a task should not wait for it for hours."""


class Docs(Protocol):
    """The documentation (`outlast.activities.web.docs`)."""

    async def search(self, request: web.DocsSearchInput) -> web.DocsHits:
        """Return the best matching sections."""
        ...

    async def page(self, request: web.DocsPageInput) -> web.DocsPage:
        """Return a page or a section."""
        ...


class Skeletons(Protocol):
    """The structures of pages (`outlast.activities.web.pages`)."""

    async def chunk(self, request: web.HtmlSkeletonInput) -> web.HtmlSkeleton:
        """Return one chunk of a page."""
        ...


class WebActivities:
    """Reads the web, always without a caller's token."""

    def __init__(self, docs: Docs, skeletons: Skeletons) -> None:
        self._docs = docs
        self._skeletons = skeletons

    @activity.defn
    async def search_docs(self, request: web.DocsSearchInput) -> web.DocsHits:
        """Return the best matching sections of the documentation."""
        async with activity_scope():
            return await self._docs.search(request)

    @activity.defn
    async def fetch_docs_page(self, request: web.DocsPageInput) -> web.DocsPage:
        """Return a page of the documentation, or the section that the URL's fragment names."""
        async with activity_scope():
            return await self._docs.page(request)

    @activity.defn
    async def fetch_html_skeleton(self, request: web.HtmlSkeletonInput) -> web.HtmlSkeleton:
        """Return one chunk of a page's structure. Fails with `not_found` for a chunk that does not exist."""
        async with activity_scope():
            return await self._skeletons.chunk(request)
