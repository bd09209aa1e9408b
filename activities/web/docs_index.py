"""A full-text index of documentation pages: SQLite's FTS5 in memory, ranked by BM25, one entry per section."""

import html
import re
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from outlast.activities.web.address_rules import AddressNotAllowed, WebAddress
from outlast.activities.web.contracts import DocsHit, DocsHits
from outlast.activities.web.markdown import Article

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
    """The pages of a sitemap, or the sitemaps of a sitemap index (sitemaps.org protocol)."""
    return _parsed(base, ((html.unescape(place), "", "", kind == "sitemap") for kind, place in _LOCATION.findall(xml)))


def listed_in_llms_txt(markdown: str, base: WebAddress) -> list[Listed]:
    """The pages that an `llms.txt` lists, with title and description (llmstxt.org)."""
    return _parsed(base, ((link, title, about, False) for title, link, about in _LISTED_LINK.findall(markdown)))


def entries_of(page: Listed, article: Article | None) -> list[Entry]:
    """The entries of a page; a page that was not read is indexed by its title, description and address."""
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
        """The best section of each page that has a word of `query`, pages with all words first.

        Only pages whose address begins with `under`, and does not begin with `outside`.
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
    """The valid addresses, each once; an index may contain invalid ones."""
    listed: dict[str, Listed] = {}
    for place, title, about, is_index in found:
        try:
            address = WebAddress.parse(place, base=base)
        except AddressNotAllowed:
            continue
        listed.setdefault(address.url, Listed(address, title.strip(), about.strip(), is_index))
    return list(listed.values())
