"""Converts HTML pages for models: to Markdown, to sections, to their structure without text. Pure.

Who has a page to convert imports this: BeautifulSoup and markdownify take a tenth of a second to load.
"""

import re
from typing import cast
from urllib.parse import urljoin

from bs4 import BeautifulSoup
from bs4.element import Comment, Doctype, NavigableString, PreformattedString, Tag
from markdownify import MarkdownConverter  # pyright: ignore[reportMissingTypeStubs]

from outlast.activities.web.markdown import Article, article_of_markdown, one_line

_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_NOT_READ = ("script", "style", "noscript", "template", "svg", "iframe", "nav", "footer", "form", "button")
_NO_STRUCTURE = ("script", "style", "noscript", "template", "link", "meta", "base")
_MAX_TEXT_CHARS = 120
_MAX_ATTRIBUTE_CHARS = 200
_DROPPED_ATTRIBUTES = re.compile(r"style|srcset|sizes|integrity|nonce|on\w+", re.IGNORECASE)


def article_of_html(html: str, base_url: str = "") -> Article:
    """The content of an HTML page: its `main` or `article` element if it has one. Links become absolute."""
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
    """The language that a `pre`, or the `code` in it, has in its class."""
    classes = " ".join(
        name for tag in (pre, *pre.find_all("code", limit=1)) for name in tag.get_attribute_list("class")
    )
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
