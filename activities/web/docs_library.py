"""The documentation: its sites, a full-text index of them, and their pages as Markdown."""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass

from temporalio import activity

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.not_found import not_found
from outlast.activities.web.address_rules import WebAddress
from outlast.activities.web.contracts import DocsHits, DocsPage, DocsPageInput, DocsSearchInput
from outlast.activities.web.docs_index import (
    DocsIndex,
    Entry,
    Listed,
    entries_of,
    listed_in_llms_txt,
    listed_in_sitemap,
)
from outlast.activities.web.fetcher import HTML_TYPES, TEXT_TYPES, XML_TYPES, WebFetcher, WebPage
from outlast.activities.web.markdown import Article, article_of_markdown, slice_bytes
from outlast.loading import loading

_READABLE = HTML_TYPES | TEXT_TYPES
_FETCHES_AT_ONCE = 8
_MAX_INDEX_DEPTH = 2


@dataclass(frozen=True, slots=True)
class DocsSite:
    """One site of documentation; `index` is the address of its sitemap or `llms.txt` when not at its root."""

    root: WebAddress
    index: WebAddress | None = None


@dataclass(frozen=True, slots=True)
class DocsTiming:
    """How much of the sites is indexed, and how long an index is used."""

    index_seconds: float = 3_600.0
    build_seconds: float = 30.0
    max_pages: int = 400


class DocsLibrary:
    """The sites and their index, which is built on first use and again when it is old."""

    def __init__(self, sites: Sequence[DocsSite], fetcher: WebFetcher, timing: DocsTiming | None = None) -> None:
        """`fetcher` must allow addresses below the sites, and no others."""
        self._sites = sites
        self._fetcher = fetcher
        self._timing = timing or DocsTiming()
        self._lock = asyncio.Lock()
        self._index: DocsIndex | None = None
        self._built = float("-inf")

    async def search(self, request: DocsSearchInput) -> DocsHits:
        """The best matching sections. Raises `ToolFailure` when the sites cannot be read."""
        index = await self._fresh_index()
        return await asyncio.to_thread(
            index.search,
            request.query,
            offset=request.offset,
            limit=request.limit,
            under=request.under,
            outside=request.outside,
        )

    async def page(self, request: DocsPageInput) -> DocsPage:
        """A page, or the section that the URL's fragment names. Raises `ToolFailure` when it does not exist."""
        address = WebAddress.parse(request.url, base=self._sites[0].root)
        page, article = await self._article(address)
        sections = tuple(section.fragment for section in article.sections if section.fragment)
        markdown = article.under(address.fragment) if address.fragment else article.markdown
        if markdown is None:
            raise not_found(
                f"{page.address.url} has no section #{address.fragment}.",
                f"Its sections are: {', '.join(sections[:50])}." if sections else "It has no sections.",
            )
        part, next_offset, size = slice_bytes(markdown, request.offset, request.max_bytes)
        return DocsPage(
            url=page.address.url + (f"#{address.fragment}" if address.fragment else ""),
            title=article.title,
            markdown=part,
            offset=min(request.offset, size),
            next_offset=next_offset,
            size_bytes=size,
            sections=sections[:100],
        )

    async def _fresh_index(self) -> DocsIndex:
        """The index; an old one is kept while the sites cannot be read."""
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

    async def _article(self, address: WebAddress) -> tuple[WebPage, Article]:
        """A page and what it says."""
        page = await self._fetcher.fetch(address, accept=_READABLE)
        if page.mime_type in HTML_TYPES:
            return page, await asyncio.to_thread(_article_of_html, page.text, page.address.url)
        return page, await asyncio.to_thread(article_of_markdown, page.text)

    async def _build(self) -> DocsIndex:
        deadline = time.monotonic() + self._timing.build_seconds
        async with asyncio.timeout(self._timing.build_seconds):
            found = await asyncio.gather(*(self._listed(site) for site in self._sites), return_exceptions=True)
        failures = [pages for pages in found if isinstance(pages, BaseException)]
        listed = [page for pages in found if not isinstance(pages, BaseException) for page in pages]
        if not listed and failures:
            raise failures[0]
        entries = await self._read_listed(listed, deadline)
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

    async def _read_listed(self, listed: Sequence[Listed], deadline: float) -> list[Entry]:
        """The texts of as many pages as there is time for; the others are found by their titles and addresses."""
        slots = asyncio.Semaphore(_FETCHES_AT_ONCE)

        async def entries(position: int, page: Listed) -> list[Entry]:
            async with slots:
                if position >= self._timing.max_pages or time.monotonic() > deadline:
                    return entries_of(page, None)
                try:
                    return entries_of(page, (await self._article(page.address))[1])
                except ToolFailure as error:
                    activity.logger.info("A page of the documentation is indexed by its title only: %s", error)
                    return entries_of(page, None)

        found = await asyncio.gather(*(entries(position, page) for position, page in enumerate(listed)))
        return [entry for part in found for entry in part]


def _article_of_html(html: str, base_url: str) -> Article:
    with loading():
        from outlast.activities.web.html_pages import article_of_html  # noqa: PLC0415 (loads BeautifulSoup)

    return article_of_html(html, base_url)
