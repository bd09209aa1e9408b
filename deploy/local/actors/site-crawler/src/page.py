"""Conversion of an HTML document to a row."""

import copy
import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from urllib.parse import urljoin, urlsplit

from bs4 import BeautifulSoup
from bs4.element import NavigableString, Tag
from markdownify import MarkdownConverter

from .settings import without_fragment

MAX_TEXT_CHARS = 1_000_000
"""Maximum length of a row's text and Markdown: the API rejects rows over 9 MB."""
MAX_LINKS = 2_000

NOT_CONTENT = "script, style, noscript, template, svg, iframe, link, meta, canvas"
NOT_MAIN_CONTENT = "nav, header, footer, aside, form, [role=navigation], [role=search], [aria-hidden=true], .headerlink"
MAIN_CONTENT = ("main", "[role=main]", "article")
BLOCKS = (
    "address article blockquote dd div dl dt fieldset figcaption figure h1 h2 h3 h4 h5 h6 hr li main ol p pre section "
    "table tr ul"
).split()


@dataclass(frozen=True)
class FetchedPage:
    """Fetched page: the requested URL, the URL after redirects, and the depth in the crawl."""

    url: str
    loaded_url: str
    depth: int
    status_code: int


def build_row(
    page: FetchedPage, soup: BeautifulSoup, links: Sequence[str], main_content_only: bool
) -> dict[str, object]:
    """Make the row of an HTML page without changing the document."""
    content = _content(soup, page.loaded_url, main_content_only)
    markdown = _markdown(content)
    text = _text(content)
    return {
        "url": page.url,
        "loadedUrl": page.loaded_url,
        "title": _title(soup),
        "description": _description(soup),
        "language": _language(soup),
        "depth": page.depth,
        "statusCode": page.status_code,
        "text": text[:MAX_TEXT_CHARS],
        "markdown": markdown[:MAX_TEXT_CHARS],
        "truncated": max(len(text), len(markdown)) > MAX_TEXT_CHARS,
        "linkCount": len(links),
        "links": links[:MAX_LINKS],
        "contentHash": hashlib.sha256(text.encode()).hexdigest(),
        "crawledAt": now(),
    }


def build_error_row(url: str, depth: int, status_code: int | None, error: str) -> dict[str, object]:
    """Make the row of a page that could not be crawled."""
    return {"url": url, "depth": depth, "statusCode": status_code, "error": error, "crawledAt": now()}


def page_links(base_url: str, soup: BeautifulSoup) -> Iterator[str]:
    """Yield the http(s) URLs that the page links to: absolute, without fragments, each once, in document order."""
    base = soup.find("base", href=True)
    if base:
        base_url = _absolute(base_url, str(base["href"])) or base_url
    targets = (_absolute(base_url, str(anchor["href"]).strip()) for anchor in soup.select("a[href], area[href]"))
    yield from dict.fromkeys(target for target in targets if target)


def now() -> str:
    """Return the current time in UTC, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _absolute(base_url: str, href: str) -> str | None:
    try:
        url = without_fragment(urljoin(base_url, href))
        parts = urlsplit(url)
        return url if parts.scheme in {"http", "https"} and parts.hostname and parts.port != 0 else None
    except ValueError:  # Not a URL at all, such as `http://[`.
        return None


def _title(soup: BeautifulSoup) -> str | None:
    title = soup.find("title") or soup.find("h1")
    return " ".join(title.get_text().split()) or None if title else None


def _description(soup: BeautifulSoup) -> str | None:
    for selector in ("meta[name=description i]", "meta[property='og:description' i]"):
        meta = soup.select_one(selector)
        if meta and meta.get("content"):
            return " ".join(str(meta["content"]).split())
    return None


def _language(soup: BeautifulSoup) -> str | None:
    html = soup.find("html", lang=True)
    return str(html["lang"]) if html else None


def _content(soup: BeautifulSoup, base_url: str, main_content_only: bool) -> Tag:
    """Copy the content part of the page, with absolute links."""
    root = soup.body or soup
    if main_content_only:
        root = next((found for selector in MAIN_CONTENT if (found := soup.select_one(selector))), root)
    content = copy.copy(root)
    for unwanted in content.select(f"{NOT_CONTENT}, {NOT_MAIN_CONTENT}" if main_content_only else NOT_CONTENT):
        unwanted.decompose()
    for anchor in content.select("a[href]"):
        anchor["href"] = _joined(base_url, str(anchor["href"]))
    for image in content.select("img[src]"):
        image["src"] = _joined(base_url, str(image["src"]))
    return content


def _joined(base_url: str, href: str) -> str:
    """Return the absolute URL, or `href` if it is not a URL."""
    try:
        return urljoin(base_url, href)
    except ValueError:
        return href


def _markdown(content: Tag) -> str:
    markdown = MarkdownConverter(heading_style="ATX", bullets="-").convert_soup(content)
    return re.sub(r"\n{3,}", "\n\n", markdown).strip()


def _text(content: Tag) -> str:
    """Return the text with one line per block, white space collapsed except in `pre`. Changes `content`."""
    for string in content.find_all(string=True):
        if type(string) is NavigableString and not string.find_parent("pre"):
            string.replace_with(NavigableString(re.sub(r"\s+", " ", string)))
    for line_break in content.find_all("br"):
        line_break.replace_with("\n")
    for block in content.find_all(BLOCKS):
        block.insert_before("\n")
        block.insert_after("\n")
    for cell in content.find_all(["td", "th"]):
        cell.insert_after("\t")
    lines = (re.sub(r"^ (?! )", "", line.rstrip()) for line in content.get_text().split("\n"))
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip()
