"""Documentation site for Actors to crawl: Markdown files as linked HTML pages under `/site/`."""

from __future__ import annotations

import html
import re
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from starlette.requests import Request
from starlette.responses import FileResponse, HTMLResponse, PlainTextResponse, Response
from starlette.routing import Route

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

_TEMPLATE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<meta name="description" content="{description}">
<link rel="canonical" href="{canonical}">
<style>body{{font:16px/1.6 system-ui,sans-serif;max-width:72rem;margin:0 auto;padding:1rem;display:flex;gap:2rem}}
nav{{flex:0 0 14rem}}main{{min-width:0}}pre{{overflow:auto;background:#f4f4f4;padding:.5rem}}
td,th{{border:1px solid #ccc;padding:.2rem .5rem}}table{{border-collapse:collapse}}</style>
</head>
<body>
<nav aria-label="Pages"><ul>
{navigation}
</ul></nav>
<main>
<article>
{content}
</article>
</main>
</body>
</html>
"""
_HEADING = re.compile(r"^#\s+(.+?)\s*#*\s*$", re.MULTILINE)
_MARKUP = re.compile(r"[`*_]|\[([^\]]*)\]\([^)]*\)")


class Site:
    """Site of one folder of Markdown files. Files are read on each request, so that edits show at once."""

    def __init__(self, directory: Path, base_url: str) -> None:
        self._directory = directory.resolve()
        self._base_url = base_url

    @cached_property
    def _markdown(self) -> MarkdownIt:
        from markdown_it import MarkdownIt  # noqa: PLC0415 (only needed for pages: the sandbox starts sooner)

        return MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])

    def routes(self) -> list[Route]:
        """Return the routes to add to the application."""
        return [
            Route("/robots.txt", self._robots),
            Route("/sitemap.xml", self._sitemap),
            Route("/site", self._page),
            Route("/site/robots.txt", self._robots),
            Route("/site/sitemap.xml", self._sitemap),
            Route("/site/{path:path}", self._page),
        ]

    def pages(self) -> dict[str, Path]:
        """Return the file of every page by its path below `/site/`. The index of a folder has the folder's path."""
        files = sorted(self._directory.rglob("*.md")) if self._directory.is_dir() else []
        visible = [file for file in files if not any(part.startswith(".") for part in file.parts)]
        pages = {_address(file.relative_to(self._directory)): file for file in visible}
        return dict(sorted(pages.items()))

    def render(self, address: str) -> str | None:
        """Return a page in HTML, None if no page has this path."""
        pages = self.pages()
        if not address and address not in pages:
            listing = "\n".join(f"- [{_title(path)}]({page})" for page, path in pages.items())
            return self._html(
                pages, address, f"# Documentation\n\nAll pages of this site.\n\n{listing}\n", "Documentation"
            )
        file = pages.get(address)
        return None if file is None else self._html(pages, address, file.read_text(encoding="utf-8"), _title(file))

    def _html(self, pages: dict[str, Path], address: str, text: str, title: str) -> str:
        tokens = self._markdown.parse(_without_front_matter(text))
        _add_heading_ids(tokens)
        _rewrite_links(tokens)
        links = {"": "Home", **{page: _title(file) for page, file in pages.items()}}
        navigation = "\n".join(
            f'<li><a href="/site/{page}">{html.escape(name)}</a></li>' for page, name in links.items()
        )
        return _TEMPLATE.format(
            title=html.escape(title),
            description=html.escape(_first_sentence(tokens)),
            canonical=f"{self._base_url}/site/{address}",
            navigation=navigation,
            content=self._markdown.renderer.render(tokens, self._markdown.options, {}),
        )

    async def _page(self, request: Request) -> Response:
        address = str(request.path_params.get("path", ""))
        address = re.sub(r"(^|/)index\.html$", r"\1", address)
        page = self.render(address)
        if page is not None:
            return HTMLResponse(page)
        file = (self._directory / address).resolve()
        if file.is_relative_to(self._directory) and file.is_file() and file.suffix in {".png", ".jpg", ".svg", ".gif"}:
            return FileResponse(file)
        return HTMLResponse("<!doctype html><title>Not found</title><h1>Not found</h1>", status_code=404)

    async def _sitemap(self, _request: Request) -> Response:
        addresses = dict.fromkeys(["", *self.pages()])
        urls = "".join(f"<url><loc>{self._base_url}/site/{html.escape(address)}</loc></url>" for address in addresses)
        body = (
            '<?xml version="1.0" encoding="UTF-8"?>'
            f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{urls}</urlset>'
        )
        return Response(body, media_type="application/xml")

    async def _robots(self, _request: Request) -> Response:
        return PlainTextResponse(f"User-agent: *\nAllow: /\nSitemap: {self._base_url}/sitemap.xml\n")


def _address(relative: Path) -> str:
    if relative.stem.lower() in {"readme", "index"}:
        folder = relative.parent.as_posix()
        return "" if folder == "." else f"{folder}/"
    return relative.with_suffix(".html").as_posix()


def _title(file: Path) -> str:
    found = _HEADING.search(file.read_text(encoding="utf-8"))
    if found is None:
        return file.stem.replace("-", " ").replace("_", " ").capitalize()
    return _MARKUP.sub(lambda markup: markup.group(1) or "", found.group(1))


def _without_front_matter(text: str) -> str:
    if text.startswith("---\n") and "\n---\n" in text[4:]:
        return text[4:].split("\n---\n", 1)[1]
    return text


def _first_sentence(tokens: list[Token]) -> str:
    paragraphs = (
        tokens[position + 1].content for position, token in enumerate(tokens) if token.type == "paragraph_open"
    )
    return " ".join(_MARKUP.sub(lambda markup: markup.group(1) or "", next(paragraphs, "")).split())[:200]


def _add_heading_ids(tokens: list[Token]) -> None:
    used: dict[str, int] = {}
    for position, token in enumerate(tokens):
        if token.type != "heading_open":
            continue
        slug = re.sub(r"[^\w\- ]", "", tokens[position + 1].content.lower()).strip().replace(" ", "-") or "section"
        used[slug] = used.get(slug, -1) + 1
        token.attrSet("id", f"{slug}-{used[slug]}" if used[slug] else slug)


def _rewrite_links(tokens: list[Token]) -> None:
    for token in tokens:
        for child in token.children or []:
            if child.type == "link_open":
                child.attrSet("href", _rewritten(str(cast("dict[str, Any]", child.attrs).get("href", ""))))


def _rewritten(target: str) -> str:
    if "://" in target or target.startswith(("#", "mailto:")):
        return target
    path, mark, fragment = target.partition("#")
    if not path.endswith(".md"):
        return target
    folder, slash, name = path.rpartition("/")
    if name.lower() in {"readme.md", "index.md"}:
        return f"{folder}{slash}{mark}{fragment}" if folder else f"./{mark}{fragment}"
    return f"{path.removesuffix('.md')}.html{mark}{fragment}"
