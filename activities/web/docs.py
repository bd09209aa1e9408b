"""Documentation of Apify and Crawlee: search in their indexes, and pages as Markdown."""

import asyncio
import html
import re
import sqlite3
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from temporalio import activity

from outlast.activities.failures.classify import ToolFailure, not_found
from outlast.activities.web.address_rules import AddressNotAllowed, WebAddress
from outlast.activities.web.contracts import DocsHit, DocsHits, DocsPage, DocsPageInput, DocsSearchInput
from outlast.activities.web.fetcher import HTML_TYPES, TEXT_TYPES, XML_TYPES, WebFetcher, WebPage
from outlast.activities.web.pages import Article, article_of_html, article_of_markdown, slice_bytes

_LOCATION = re.compile(r"<(sitemap|url)>.*?<loc>\s*(?:<!\[CDATA\[)?\s*([^<\]]+?)\s*(?:\]\]>)?\s*</loc>", re.DOTALL)
_LISTED_LINK = re.compile(r"^\s*[-*]\s+\[([^\]]+)\]\(([^)\s]+)\)(?::\s*(.*))?$", re.MULTILINE)
_WORD = re.compile(r"\w+")
_MARKUP = re.compile(r"!?\[([^\]]*)\]\([^)]*\)|[`*_#>|]+")
_MAX_QUERY_WORDS = 20
_WEIGHTS = (8.0, 4.0, 1.0)
"""The weight of a match in the title, in the heading and in the text."""
_SNIPPET_WORDS = 40


@dataclass(frozen=True, slots=True)
class Listed:
    """A page in a site's index. `is_index` means that it is another index."""

    address: WebAddress
    title: str = ""
    description: str = ""
    is_index: bool = False


@dataclass(frozen=True, slots=True)
class Entry:
    """A section in the index."""

    page: str
    url: str
    title: str
    heading: str
    text: str


def listed_in_sitemap(xml: str, base: WebAddress) -> list[Listed]:
    """Return the pages of a sitemap, or the sitemaps of a sitemap index (sitemaps.org protocol)."""
    return _parsed(base, ((html.unescape(place), "", "", kind == "sitemap") for kind, place in _LOCATION.findall(xml)))


def listed_in_llms_txt(markdown: str, base: WebAddress) -> list[Listed]:
    """Return the pages that an `llms.txt` lists, with title and description (llmstxt.org)."""
    return _parsed(base, ((link, title, about, False) for title, link, about in _LISTED_LINK.findall(markdown)))


def entries_of(page: Listed, article: Article | None) -> list[Entry]:
    """Return the entries of a page; a page that was not read is indexed by its title, description and address."""
    url = page.address.url
    title = page.title or (article.title if article else "") or _words_of(page.address)
    if article is None or not article.sections:
        return [Entry(url, url, title, page.description, _words_of(page.address))]
    return [
        Entry(
            url,
            f"{url}#{section.fragment}" if section.fragment and position else url,
            title,
            section.title,
            _MARKUP.sub(lambda markup: markup.group(1) or " ", section.markdown),
        )
        for position, section in enumerate(article.sections)
    ]


class DocsIndex:
    """An index that is built once and never changed."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """Index `entries`. It may be built in one thread and searched in others: SQLite serialises access."""
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(
            "CREATE VIRTUAL TABLE sections USING fts5(title, heading, body, url UNINDEXED, page UNINDEXED, "
            "tokenize = 'porter unicode61 remove_diacritics 2')"
        )
        self._database.executemany(
            "INSERT INTO sections (title, heading, body, url, page) VALUES (?, ?, ?, ?, ?)",
            ((entry.title, entry.heading, entry.text, entry.url, entry.page) for entry in entries),
        )
        (self.pages,) = self._database.execute("SELECT count(DISTINCT page) FROM sections").fetchone()

    def search(self, query: str, *, offset: int, limit: int, under: str = "", outside: str | None = None) -> DocsHits:
        """Return the best section of each page that has a word of `query`, pages with all words first. Only pages whose
        address begins with `under`, and does not begin with `outside`.
        """
        words = list(dict.fromkeys(_WORD.findall(query.lower())))[:_MAX_QUERY_WORDS]
        best: dict[str, DocsHit] = {}
        for operator in (" AND ", " OR "):
            for page, hit in self._matches(operator.join(f'"{word}"' for word in words)) if words else ():
                if hit.url.startswith(under) and not (outside and hit.url.startswith(outside)):
                    best.setdefault(page, hit)
        hits = tuple(best.values())
        return DocsHits(hits=hits[offset : offset + limit], total=len(hits), offset=offset, pages_indexed=self.pages)

    def _matches(self, expression: str) -> Sequence[tuple[str, DocsHit]]:
        rows = self._database.execute(
            "SELECT page, url, title, heading, snippet(sections, 2, '', '', '…', ?) "
            "FROM sections WHERE sections MATCH ? ORDER BY bm25(sections, ?, ?, ?) LIMIT 500",
            (_SNIPPET_WORDS, expression, *_WEIGHTS),
        )
        return [
            (page, DocsHit(url=url, title=_joined(title, heading), snippet=" ".join(snippet.split())))
            for page, url, title, heading, snippet in rows
        ]


def _joined(title: str, heading: str) -> str:
    return f"{title}: {heading}" if heading and heading.casefold() not in title.casefold() else title


def _words_of(address: WebAddress) -> str:
    """`/platform/actors/running.md` -> `platform actors running`."""
    path = address.target.partition("?")[0].removesuffix(".md").removesuffix(".html")
    return " ".join(_WORD.findall(path.replace("-", " ").replace("_", " "))) or address.host


def _parsed(base: WebAddress, found: Iterable[tuple[str, str, str, bool]]) -> list[Listed]:
    """Return the valid addresses, each once; an index may contain invalid ones."""
    listed: dict[str, Listed] = {}
    for place, title, about, is_index in found:
        try:
            address = WebAddress.parse(place, base=base)
        except AddressNotAllowed:
            continue
        listed.setdefault(address.url, Listed(address, title.strip(), about.strip(), is_index))
    return list(listed.values())


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
    """Limits of an index of the sites, and its time to live."""

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
        """Return the best matching sections. Raises `ToolFailure` when the sites cannot be read."""
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
        """Return a page, or the section that the URL's fragment names. Raises `ToolFailure` when it does not exist."""
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
        """Return the index; an old one is kept while the sites cannot be read."""
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
        """Return the address and content of a page."""
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
        entries = await self._read_listed(listed, deadline)
        return await asyncio.to_thread(DocsIndex, entries)

    async def _listed(self, site: DocsSite) -> list[Listed]:
        """Return the pages of a site: of its `llms.txt`, which names them, else of its sitemap."""
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
