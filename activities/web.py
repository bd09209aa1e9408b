"""Activities on web pages: searching and reading the documentation, the bare structure of any public page."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from temporalio import activity
from temporalio.common import RetryPolicy

from activities.docs_index import DocsIndex, Entry, Listed, entries_of, listed_in_llms_txt, listed_in_sitemap
from activities.errors import ToolFailure
from activities.failing import as_activity_failure
from activities.missing import not_found
from activities.page_text import (
    Article,
    article_of_html,
    article_of_markdown,
    chunks_of,
    skeleton_of_html,
    slice_bytes,
)
from activities.web_addresses import WebAddress
from activities.web_models import DocsHits, DocsPage, DocsPageInput, DocsSearchInput, HtmlSkeleton, HtmlSkeletonInput
from activities.web_pages import HTML_TYPES, TEXT_TYPES, XML_TYPES, WebFetcher, WebPage

WEB_RETRY_POLICY = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=5), maximum_attempts=3
)
"""A page that cannot be had is worth a second look, not a task that waits for hours."""

_READABLE = HTML_TYPES | TEXT_TYPES
_FETCHES_AT_ONCE = 8
_MAX_INDEX_DEPTH = 2
_SKELETON_SECONDS = 300.0
_MAX_SKELETONS = 16


@dataclass(frozen=True, slots=True)
class DocsSite:
    """One site of documentation; `index` is where its sitemap or `llms.txt` is, when not at its root."""

    root: WebAddress
    index: WebAddress | None = None


@dataclass(frozen=True, slots=True)
class DocsTiming:
    """How much of the sites is read for the index, and how long that lasts."""

    index_seconds: float = 3_600.0
    build_seconds: float = 30.0
    max_pages: int = 400


class DocsLibrary:
    """The sites with their index, which is built when it is first needed and again when it is old."""

    def __init__(self, sites: Sequence[DocsSite], fetcher: WebFetcher, timing: DocsTiming | None = None) -> None:
        """`fetcher` must allow what lies below the sites, and nothing else."""
        self._sites = sites
        self._fetcher = fetcher
        self._timing = timing or DocsTiming()
        self._lock = asyncio.Lock()
        self._index: DocsIndex | None = None
        self._built = float("-inf")

    @property
    def first_root(self) -> WebAddress:
        """Where relative addresses begin."""
        return self._sites[0].root

    async def index(self) -> DocsIndex:
        """The index; an old one is kept while the sites cannot be read. Raises `ToolFailure` when there is none."""
        async with self._lock:
            if time.monotonic() - self._built < self._timing.index_seconds and self._index is not None:
                return self._index
            try:
                self._index = await self._build()
            except ToolFailure as error:
                if self._index is None:
                    raise
                activity.logger.warning("The documentation's index is kept although it is old: %s", error)
            self._built = time.monotonic()
            return self._index

    async def article(self, address: WebAddress) -> tuple[WebPage, Article]:
        """A page and what it says."""
        page = await self._fetcher.fetch(address, accept=_READABLE)
        if page.mime_type in HTML_TYPES:
            return page, await asyncio.to_thread(article_of_html, page.text, page.address.url)
        return page, await asyncio.to_thread(article_of_markdown, page.text)

    async def _build(self) -> DocsIndex:
        deadline = time.monotonic() + self._timing.build_seconds
        async with asyncio.timeout(self._timing.build_seconds):
            found = await asyncio.gather(*(self._listed(site) for site in self._sites), return_exceptions=True)
        failures = [pages for pages in found if isinstance(pages, BaseException)]
        listed = [page for pages in found if not isinstance(pages, BaseException) for page in pages]
        if not listed and failures:
            raise failures[0]
        entries = await self._read(listed, deadline)
        return await asyncio.to_thread(DocsIndex, entries)

    async def _listed(self, site: DocsSite) -> list[Listed]:
        """The pages of a site: of its `llms.txt`, which names them, else of its sitemap."""
        if site.index is not None:
            return await self._listed_in(site.index, _MAX_INDEX_DEPTH)
        try:
            listed = await self._listed_in(WebAddress.parse("llms.txt", base=site.root), 0)
        except ToolFailure:
            listed = []
        return listed or await self._listed_in(WebAddress.parse("sitemap.xml", base=site.root), _MAX_INDEX_DEPTH)

    async def _listed_in(self, address: WebAddress, depth: int) -> list[Listed]:
        page = await self._fetcher.fetch(address, accept=TEXT_TYPES | XML_TYPES)
        listed = (
            listed_in_sitemap(page.text, page.address)
            if page.mime_type in XML_TYPES
            else listed_in_llms_txt(page.text, page.address)
        )
        pages = [entry for entry in listed if not entry.is_index and self._is_ours(entry.address)]
        if depth:
            for nested in (entry for entry in listed if entry.is_index and self._is_ours(entry.address)):
                pages += await self._listed_in(nested.address, depth - 1)
        return pages

    def _is_ours(self, address: WebAddress) -> bool:
        return any(address.is_below(site.root) for site in self._sites)

    async def _read(self, listed: Sequence[Listed], deadline: float) -> list[Entry]:
        """What the pages say, as many as there is time for; the others are found by their titles and addresses."""
        slots = asyncio.Semaphore(_FETCHES_AT_ONCE)

        async def entries(position: int, page: Listed) -> list[Entry]:
            async with slots:
                if position >= self._timing.max_pages or time.monotonic() > deadline:
                    return entries_of(page, None)
                try:
                    return entries_of(page, (await self.article(page.address))[1])
                except ToolFailure as error:
                    activity.logger.info("A page of the documentation is indexed by its title only: %s", error)
                    return entries_of(page, None)

        found = await asyncio.gather(*(entries(position, page) for position, page in enumerate(listed)))
        return [entry for part in found for entry in part]


@dataclass(frozen=True, slots=True)
class _Skeleton:
    url: str
    title: str
    html: str
    original_bytes: int
    made: float


class WebActivities:
    """Activities that read the web. They act for nobody: no caller's token goes with them."""

    def __init__(self, docs: DocsLibrary, pages: WebFetcher) -> None:
        """`pages` fetches whatever address a caller names, under its own rules."""
        self._docs = docs
        self._pages = pages
        self._skeletons: dict[str, _Skeleton] = {}

    @activity.defn
    async def search_docs(self, order: DocsSearchInput) -> DocsHits:
        """The sections of the documentation that fit best."""
        with as_activity_failure():
            index = await self._docs.index()
            return await asyncio.to_thread(index.search, order.query, offset=order.offset, limit=order.limit)

    @activity.defn
    async def fetch_docs_page(self, order: DocsPageInput) -> DocsPage:
        """A page of the documentation, or the section that the address' fragment names."""
        with as_activity_failure():
            address = WebAddress.parse(order.url, base=self._docs.first_root)
            page, article = await self._docs.article(address)
            sections = tuple(section.fragment for section in article.sections if section.fragment)
            markdown = article.under(address.fragment) if address.fragment else article.markdown
            if markdown is None:
                raise not_found(
                    f"{page.address.url} has no section #{address.fragment}.",
                    f"Its sections are: {', '.join(sections[:50])}." if sections else "It has no sections.",
                )
            part, next_offset, size = slice_bytes(markdown, order.offset, order.max_bytes)
            return DocsPage(
                url=page.address.url + (f"#{address.fragment}" if address.fragment else ""),
                title=article.title,
                markdown=part,
                offset=min(order.offset, size),
                next_offset=next_offset,
                size_bytes=size,
                sections=sections[:100],
            )

    @activity.defn
    async def fetch_html_skeleton(self, order: HtmlSkeletonInput) -> HtmlSkeleton:
        """One chunk of a page's bare structure. Fails with `not_found` for a chunk that there is not."""
        with as_activity_failure():
            page = await self._skeleton(WebAddress.parse(order.url))
            chunks = chunks_of(page.html, order.max_bytes)
            if order.chunk > len(chunks):
                raise not_found(f"{page.url} has {len(chunks)} chunks.", f"Ask for 1 to {len(chunks)}.")
            return HtmlSkeleton(
                url=page.url,
                title=page.title,
                html=chunks[order.chunk - 1],
                chunk=order.chunk,
                total_chunks=len(chunks),
                size_bytes=len(page.html.encode()),
                original_bytes=page.original_bytes,
            )

    async def _skeleton(self, address: WebAddress) -> _Skeleton:
        """The skeleton, kept for a while, since the chunks of one page are asked for one after the other."""
        kept = self._skeletons.get(address.url)
        if kept is not None and time.monotonic() - kept.made < _SKELETON_SECONDS:
            return kept
        page = await self._pages.fetch(address, accept=HTML_TYPES)
        title, html = await asyncio.to_thread(skeleton_of_html, page.text)
        while len(self._skeletons) >= _MAX_SKELETONS:
            self._skeletons.pop(next(iter(self._skeletons)))
        made = _Skeleton(page.address.url, title, html, page.size_bytes, time.monotonic())
        self._skeletons[address.url] = made
        return made
