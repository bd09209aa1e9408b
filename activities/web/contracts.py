"""Contracts of the activities that read web pages and documentation."""

from pydantic import Field

from outlast.activities.contracts import Contract


class DocsSearchInput(Contract):
    """Input of `search_docs`: the sections of the documentation that match a query best."""

    query: str
    offset: int = 0
    limit: int = 5
    under: str = Field(default="", description="Only pages whose address begins so.")
    outside: str | None = Field(default=None, description="No pages whose address begins so.")


class DocsHit(Contract):
    """One section: its URL, its title and the text around the match."""

    url: str
    title: str
    snippet: str


class DocsHits(Contract):
    """The best sections, at most one per page. `total` counts all matching pages."""

    hits: tuple[DocsHit, ...]
    total: int
    offset: int
    pages_indexed: int


class DocsPageInput(Contract):
    """Input of `fetch_docs_page`: a page of the documentation, or one section of it, as Markdown."""

    url: str = Field(description="Address of the page, absolute or relative to the documentation's root.")
    offset: int = Field(default=0, description="Bytes to skip.")
    max_bytes: int = 49_152


class DocsPage(Contract):
    """A part of a page."""

    url: str
    title: str
    markdown: str
    offset: int
    next_offset: int | None = None
    size_bytes: int
    sections: tuple[str, ...] = Field(default=(), description="Fragments of the page's headings.")


class HtmlSkeletonInput(Contract):
    """Input of `fetch_html_skeleton`: one chunk of a page's structure."""

    url: str
    chunk: int = 1
    max_bytes: int = 49_152


class HtmlSkeleton(Contract):
    """One chunk of a page without scripts, styles, comments and long texts."""

    url: str
    title: str
    html: str
    chunk: int
    total_chunks: int
    size_bytes: int
    original_bytes: int
