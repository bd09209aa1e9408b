"""Web pages as Markdown articles with sections, and their HTML structure in chunks."""

import asyncio
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast
from urllib.parse import urljoin

from bs4 import BeautifulSoup
from bs4.element import Comment, Doctype, NavigableString, PreformattedString, Tag
from cachetools import TTLCache
from markdownify import MarkdownConverter  # pyright: ignore[reportMissingTypeStubs]

from outlast.activities.failures.classify import not_found
from outlast.activities.web.address_rules import WebAddress
from outlast.activities.web.contracts import HtmlSkeleton, HtmlSkeletonInput
from outlast.activities.web.fetcher import HTML_TYPES, WebFetcher

_MARKDOWN_HEADING = re.compile(r"^(#{1,6})\s+(.+?)\s*#*\s*$")
_FENCE = re.compile(r"^\s{0,3}(```|~~~)")
_BLANK_LINES = re.compile(r"\n{3,}")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and its text up to the next heading. `fragment` is None before the first heading."""

    fragment: str | None
    title: str
    level: int
    markdown: str


@dataclass(frozen=True, slots=True)
class Article:
    """A page's title and its sections, in order."""

    title: str
    sections: tuple[Section, ...]

    @property
    def markdown(self) -> str:
        """The whole article."""
        return "\n\n".join(section.markdown for section in self.sections if section.markdown)

    def under(self, fragment: str) -> str | None:
        """Return the section with this fragment and its subsections, or None."""
        for position, section in enumerate(self.sections):
            if section.fragment == fragment:
                rest = self.sections[position + 1 :]
                end = next((n for n, other in enumerate(rest) if other.level <= section.level), len(rest))
                return "\n\n".join(part.markdown for part in (section, *rest[:end]) if part.markdown)
        return None


def article_of_markdown(markdown: str, fragments: Sequence[str | None] = ()) -> Article:
    """Return the sections of a Markdown page. Headings without a fragment get one in the usual way of sites."""
    parts = list(_by_heading(_BLANK_LINES.sub("\n\n", markdown).strip()))
    # Fragments are matched to headings by position: when the numbers differ, none is used.
    given = iter(fragments if len(fragments) == len(parts) - 1 else ())
    used: dict[str, int] = {}
    sections: list[Section] = []
    for heading, body in parts:
        if heading is None:
            sections.append(Section(None, "", 0, body))
            continue
        hashes, text = heading
        plain = _plain(text)
        fragment = next(given, None) or _slug(plain, used)
        sections.append(Section(fragment, plain, len(hashes), body))
    kept = tuple(section for section in sections if section.markdown)
    return Article(next((section.title for section in kept if section.title), ""), kept)


def one_line(text: str) -> str:
    """`text` with single spaces in place of all white space."""
    return " ".join(text.split())


def chunks_of(text: str, max_bytes: int) -> list[str]:
    """`text` in parts of at most `max_bytes` of UTF-8, split after a tag where possible; at least one part."""
    data = text.encode()
    parts: list[str] = []
    while len(data) > max_bytes:
        cut = data.rfind(b">", max_bytes // 2, max_bytes) + 1 or _character_boundary(data, max_bytes)
        parts.append(data[:cut].decode())
        data = data[cut:]
    return [*parts, data.decode()]


def slice_bytes(text: str, offset: int, max_bytes: int) -> tuple[str, int | None, int]:
    """The part of `text` from byte `offset` on, the offset of the next part (None at the end), and the total size."""
    data = text.encode()
    start = _character_boundary(data, offset)
    end = _character_boundary(data, start + max_bytes)
    return data[start:end].decode(), end if end < len(data) else None, len(data)


def _character_boundary(data: bytes, position: int) -> int:
    """`position`, moved back to the start of a character."""
    position = min(position, len(data))
    while 0 < position < len(data) and data[position] & 0xC0 == 0x80:
        position -= 1
    return position


def _by_heading(markdown: str) -> Iterator[tuple[tuple[str, str] | None, str]]:
    """Each heading (hashes, text) with its lines up to the next one; first None with the lines before any heading."""
    heading: tuple[str, str] | None = None
    lines: list[str] = []
    fenced = False
    for line in markdown.splitlines():
        fenced ^= bool(_FENCE.match(line))
        found = None if fenced else _MARKDOWN_HEADING.match(line)
        if found:
            yield heading, "\n".join(lines).strip()
            heading, lines = (found.group(1), found.group(2)), []
        lines.append(line)
    yield heading, "\n".join(lines).strip()


def _plain(text: str) -> str:
    without_links = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    return one_line(re.sub(r"[`*\\]|\u200b", "", without_links))


def _slug(title: str, used: dict[str, int]) -> str:
    slug = re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") or "section"
    used[slug] = used.get(slug, -1) + 1
    return f"{slug}-{used[slug]}" if used[slug] else slug


_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_NOT_READ = ("script", "style", "noscript", "template", "svg", "iframe", "nav", "footer", "form", "button")
_NO_STRUCTURE = ("script", "style", "noscript", "template", "link", "meta", "base")
_MAX_TEXT_CHARS = 120
_MAX_ATTRIBUTE_CHARS = 200
_DROPPED_ATTRIBUTES = re.compile(r"style|srcset|sizes|integrity|nonce|on\w+", re.IGNORECASE)


def article_of_html(html: str, base_url: str = "") -> Article:
    """Return the content of an HTML page: its `main` or `article` element if it has one. Links become absolute."""
    soup = BeautifulSoup(html, "lxml")
    title = one_line(soup.title.get_text()) if soup.title else ""
    for tag in soup.find_all(_NOT_READ):
        tag.decompose()
    content = soup.find("main") or soup.find("article") or soup.body or soup
    fragments = [_fragment(heading) for heading in content.find_all(_HEADINGS) if heading.get_text(strip=True)]
    for link in content.select("a.hash-link, a.anchor, a.headerlink"):
        link.decompose()
    for link in content.select("a[href]"):
        link["href"] = urljoin(base_url, str(link["href"]))
    article = article_of_markdown(_markdown(cast(Tag, content)), fragments)
    return Article(title or article.title, article.sections)


def skeleton_of_html(html: str) -> tuple[str, str]:
    """Title and structure of a page: no scripts, styles, comments or data URIs; long texts and values are cut."""
    soup = BeautifulSoup(html, "lxml")
    title = one_line(soup.title.get_text()) if soup.title else ""
    for tag in soup.find_all(_NO_STRUCTURE):
        tag.decompose()
    for svg in soup.find_all("svg"):
        svg.clear()
    for text in list(soup.find_all(string=True)):
        _shorten_text(text)
    for tag in soup.find_all(True):
        _shorten_attributes(tag)
    return title, str(soup).strip()


def _markdown(content: Tag) -> str:
    converter = MarkdownConverter(heading_style="ATX", bullets="-", strip=["img"], code_language_callback=_language)
    try:
        return str(converter.convert_soup(content))  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    except RecursionError:  # a page nested thousands of levels deep
        return content.get_text("\n", strip=True)


def _language(pre: Tag) -> str:
    """Return the language that a `pre`, or the `code` in it, has in its class."""
    tags = (pre, *pre.find_all("code", limit=1))
    classes = " ".join(name for tag in tags for name in tag.get_attribute_list("class"))
    found = re.search(r"language-([\w+-]+)", classes)
    return found.group(1) if found else ""


def _fragment(heading: Tag) -> str | None:
    own = heading.get("id")
    anchor = heading.find("a", id=True)
    inner = anchor.get("id") if isinstance(anchor, Tag) else None
    return str(own or inner) if own or inner else None


def _shorten_text(text: NavigableString) -> None:
    if isinstance(text, Comment) or (isinstance(text, PreformattedString) and not isinstance(text, Doctype)):
        text.extract()
        return
    if isinstance(text, Doctype):
        return
    clean = one_line(text)
    text.replace_with(clean if len(clean) <= _MAX_TEXT_CHARS else f"{clean[: _MAX_TEXT_CHARS - 1]}…")


def _shorten_attributes(tag: Tag) -> None:
    for name, value in list(tag.attrs.items()):
        text = value if isinstance(value, str) else " ".join(value)
        if _DROPPED_ATTRIBUTES.fullmatch(name):
            del tag.attrs[name]
        elif text.lstrip().lower().startswith("data:"):
            tag.attrs[name] = f"{text.strip()[:30].partition(',')[0]},…"
        elif len(text) > _MAX_ATTRIBUTE_CHARS:
            tag.attrs[name] = f"{text[: _MAX_ATTRIBUTE_CHARS - 1]}…"


_KEPT_SECONDS = 300.0
_MAX_KEPT = 16


@dataclass(frozen=True, slots=True)
class _Skeleton:
    url: str
    title: str
    html: str
    original_bytes: int


class HtmlSkeletons:
    """Builds the structures of pages, and keeps each for a while: a model requests one chunk after the other."""

    def __init__(self, fetcher: WebFetcher) -> None:
        """`fetcher` fetches the addresses that callers name, within its rules."""
        self._fetcher = fetcher
        self._kept = TTLCache[str, _Skeleton](_MAX_KEPT, _KEPT_SECONDS)

    async def chunk(self, request: HtmlSkeletonInput) -> HtmlSkeleton:
        """Return one chunk of a page. Raises `ToolFailure` when there is no such page or chunk."""
        page = await self._skeleton(WebAddress.parse(request.url))
        chunks = chunks_of(page.html, request.max_bytes)
        if request.chunk > len(chunks):
            raise not_found(f"{page.url} has {len(chunks)} chunks.", f"Ask for 1 to {len(chunks)}.")
        return HtmlSkeleton(
            url=page.url,
            title=page.title,
            html=chunks[request.chunk - 1],
            chunk=request.chunk,
            total_chunks=len(chunks),
            size_bytes=len(page.html.encode()),
            original_bytes=page.original_bytes,
        )

    async def _skeleton(self, address: WebAddress) -> _Skeleton:
        kept = self._kept.get(address.url)
        if kept is not None:
            return kept
        page = await self._fetcher.fetch(address, accept=HTML_TYPES)
        title, html = await asyncio.to_thread(skeleton_of_html, page.text)
        skeleton = _Skeleton(page.address.url, title, html, page.size_bytes)
        self._kept[address.url] = skeleton
        return skeleton
