"""The structures of web pages, chunk by chunk."""

import asyncio
from dataclasses import dataclass

from cachetools import TTLCache

from outlast.activities.failures.not_found import not_found
from outlast.activities.web.address_rules import WebAddress
from outlast.activities.web.contracts import HtmlSkeleton, HtmlSkeletonInput
from outlast.activities.web.fetcher import HTML_TYPES, WebFetcher
from outlast.activities.web.markdown import chunks_of
from outlast.loading import loading

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
        """One chunk of a page. Raises `ToolFailure` when there is no such page or chunk."""
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
        title, html = await asyncio.to_thread(_skeleton_of_html, page.text)
        skeleton = _Skeleton(page.address.url, title, html, page.size_bytes)
        self._kept[address.url] = skeleton
        return skeleton


def _skeleton_of_html(html: str) -> tuple[str, str]:
    with loading():
        from outlast.activities.web.html_pages import skeleton_of_html  # noqa: PLC0415 (loads BeautifulSoup)

    return skeleton_of_html(html)
