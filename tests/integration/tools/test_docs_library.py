"""The documentation's index: how it is made, and how long it is kept."""

from collections.abc import Iterator

import pytest

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.web.address_rules import AddressRules, WebAddress
from outlast.activities.web.contracts import DocsSearchInput
from outlast.activities.web.docs import DocsLibrary, DocsSite, DocsTiming
from outlast.activities.web.fetcher import WebFetcher
from tests.support.http.pages import WebServer, serving_pages


@pytest.fixture
def site() -> Iterator[WebServer]:
    with serving_pages() as server:
        yield server


async def found(site: WebServer, *queries: str, index: str | None = None, **timing: float) -> list[list[str]]:
    """The addresses that a new library finds for each query, one query after the other."""
    root = WebAddress.parse(f"{site.url}/site/")
    async with WebFetcher(AddressRules(sites=(root,), trusts_sites=True)) as fetcher:
        sites = [DocsSite(root, WebAddress.parse(site.url + index) if index else None)]
        library = DocsLibrary(sites, fetcher, DocsTiming(**timing))  # pyright: ignore[reportArgumentType]
        answers = [await library.search(DocsSearchInput(query=query)) for query in queries]
    return [[hit.url.removeprefix(site.url) for hit in answer.hits] for answer in answers]


def sitemap(site: WebServer, path: str, *pages: str, kind: str = "url") -> None:
    places = "".join(f"<{kind}><loc>{site.url}{page}</loc></{kind}>" for page in pages)
    site.page(path, f"<index>{places}</index>", "text/xml")


async def test_an_index_is_made_once_and_kept(site: WebServer) -> None:
    sitemap(site, "/site/sitemap.xml", "/site/a")
    site.page("/site/a", "<h1>Apples</h1>")
    assert await found(site, "apples", "pears") == [["/site/a"], []]
    assert site.asked == ["/site/llms.txt", "/site/sitemap.xml", "/site/a"]


async def test_a_sitemap_may_point_to_others(site: WebServer) -> None:
    sitemap(site, "/site/index.xml", "/site/one.xml", "/elsewhere.xml", kind="sitemap")
    sitemap(site, "/site/one.xml", "/site/a", "/other/b")
    site.page("/site/a", "<h1>Apples</h1>")
    assert await found(site, "apples", index="/site/index.xml") == [["/site/a"]]
    assert site.asked == ["/site/index.xml", "/site/one.xml", "/site/a"]


async def test_pages_beyond_the_limit_are_found_by_their_address(site: WebServer) -> None:
    sitemap(site, "/site/sitemap.xml", "/site/a", "/site/ripe-pears")
    site.page("/site/a", "<h1>Apples</h1>")
    site.page("/site/ripe-pears", "<h1>Fruit</h1>")
    assert await found(site, "pears", "fruit", max_pages=1) == [["/site/ripe-pears"], []]


async def test_an_old_index_is_kept_while_the_site_cannot_be_read(site: WebServer) -> None:
    sitemap(site, "/site/sitemap.xml", "/site/a")
    site.page("/site/a", "<h1>Apples</h1>")
    root = WebAddress.parse(f"{site.url}/site/")
    async with WebFetcher(AddressRules(sites=(root,), trusts_sites=True)) as fetcher:
        library = DocsLibrary([DocsSite(root)], fetcher, DocsTiming(index_seconds=0))
        assert (await library.search(DocsSearchInput(query="apples"))).total == 1
        site.answers.clear()
        assert (await library.search(DocsSearchInput(query="apples"))).total == 1


async def test_without_any_index_the_site_is_the_reason(site: WebServer) -> None:
    with pytest.raises(ToolFailure, match=r"sitemap\.xml could not be fetched: there is no such page"):
        await found(site, "apples")
