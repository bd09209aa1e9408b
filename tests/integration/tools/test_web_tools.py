"""The documentation and page tools, through the whole service, on a site served here."""

import pytest

from tests.integration.tools.conftest import ToolCaller
from tests.support.http.pages import WebServer

BODY = "<html><head><title>{title}</title></head><body><nav>menu</nav><main>{content}</main></body></html>"
PAGES = {
    "actors": "<h1>Actors</h1><p>Programs in the cloud.</p><h2 id='standby'>Standby</h2><p>Answers at once.</p>",
    "storage": "<h1>Storage</h1><p>Datasets hold rows.</p><p>See <a href='actors'>Actors</a>.</p>",
    "long": "<h1>Long</h1>" + "".join(f"<p>Paragraph {n} of a very long page.</p>" for n in range(2_400)),
}


@pytest.fixture
def site(docs_site: WebServer) -> WebServer:
    docs_site.answers.clear()
    docs_site.asked.clear()
    for name, content in PAGES.items():
        docs_site.page(f"/site/{name}", BODY.format(title=name.capitalize(), content=content))
    listed = "".join(f"<url><loc>{docs_site.url}/site/{name}</loc></url>" for name in (*PAGES, "gone"))
    elsewhere = f"<url><loc>{docs_site.url}/private</loc></url><url><loc>http://127.0.0.1:9/x</loc></url>"
    docs_site.page("/site/sitemap.xml", f"<urlset>{listed}{elsewhere}</urlset>", "application/xml")
    docs_site.page("/private", "<h1>Private</h1>")
    return docs_site


async def test_documentation_is_found_by_its_words(call: ToolCaller, site: WebServer) -> None:
    found = await call("search-apify-docs", query="standby answers")
    assert found.structured["results"][0]["url"] == f"{site.url}/site/actors#standby"
    assert found.structured["results"][0]["title"] == "Actors: Standby"
    assert "fetch-apify-docs" in found.text
    assert "/private" not in site.asked


async def test_results_come_in_pages_and_nothing_found_says_so(call: ToolCaller, site: WebServer) -> None:
    first = await call("search-apify-docs", query="actors datasets long", limit=2)
    assert (first.structured["total"], first.structured["nextOffset"]) == (3, 2)
    nothing = await call("search-apify-docs", query="xylophone")
    assert nothing.structured["results"] == []
    assert "Nothing in the documentation's 4 pages fits 'xylophone'" in nothing.text


async def test_an_llms_txt_is_preferred_to_the_sitemap(call: ToolCaller, site: WebServer) -> None:
    site.page("/site/llms.txt", "# Docs\n\n- [The storage](storage): where rows are\n", "text/plain")
    found = await call("search-apify-docs", query="rows")
    assert [result["title"] for result in found.structured["results"]] == ["The storage"]
    assert found.structured["total"] == 1


async def test_a_site_that_cannot_be_read_is_an_error_that_says_so(call: ToolCaller, docs_site: WebServer) -> None:
    docs_site.answers.clear()
    page = await call("fetch-apify-docs", url=f"{docs_site.url}/site/nothing")
    assert page.error is not None
    assert page.error["category"] == "not_found"


async def test_a_page_is_markdown_and_a_fragment_one_section(call: ToolCaller, site: WebServer) -> None:
    page = await call("fetch-apify-docs", url=f"{site.url}/site/storage")
    assert page.structured["content"].startswith("# Storage")
    assert f"[Actors]({site.url}/site/actors)" in page.text
    assert "menu" not in page.text
    section = await call("fetch-apify-docs", url="actors#standby")
    assert section.structured["content"] == "## Standby\n\nAnswers at once."
    assert section.structured["url"] == f"{site.url}/site/actors#standby"
    missing = await call("fetch-apify-docs", url=f"{site.url}/site/actors#nowhere")
    assert "Its sections are: actors, standby." in missing.text


async def test_a_long_page_is_read_part_by_part(call: ToolCaller, site: WebServer) -> None:
    first = await call("fetch-apify-docs", url=f"{site.url}/site/long")
    offset = first.structured["nextOffset"]
    assert f"offset {offset}" in first.text
    second = await call("fetch-apify-docs", url=f"{site.url}/site/long", offset=offset)
    whole = (first.structured["content"] + second.structured["content"]).splitlines()
    assert whole[-1] == "Paragraph 2399 of a very long page."
    assert "nextOffset" not in second.structured


async def test_only_the_documentation_is_fetched(call: ToolCaller, site: WebServer) -> None:
    site.redirect("/site/leak", "/private")
    for url in (
        f"{site.url}/private",
        f"{site.url}/site/leak",
        f"{site.url}/site/%2e%2e/private",
        "/private",
        "https://example.com/",
        "http://169.254.169.254/latest/meta-data/",
        "file:///etc/passwd",
    ):
        refused = await call("fetch-apify-docs", url=url)
        assert refused.error is not None, url
        assert refused.error["category"] == "permission", url
    assert "/private" not in site.asked


async def test_a_skeleton_comes_in_chunks(call: ToolCaller, site: WebServer) -> None:
    url = f"{site.url}/site/long"
    first = await call("get-html-skeleton", url=url)
    assert first.structured["totalChunks"] > 1
    assert "chunk 2" in first.text
    chunks = [first.structured["html"]]
    for number in range(2, first.structured["totalChunks"] + 1):
        chunks.append((await call("get-html-skeleton", url=url, chunk=number)).structured["html"])  # noqa: PERF401
    assert "".join(chunks).count("<p>") == 2_400
    assert site.asked.count("/site/long") == 1
    beyond = await call("get-html-skeleton", url=url, chunk=99)
    assert beyond.error is not None
    assert beyond.error["category"] == "not_found"


async def test_the_clouds_metadata_is_never_fetched(call: ToolCaller) -> None:
    """Not even by an operator who allows private addresses."""
    for url in ("http://169.254.169.254/latest/meta-data/", "http://[fe80::1]/", "http://0.0.0.0/"):
        refused = await call("get-html-skeleton", url=url)
        assert refused.error is not None
        assert refused.error["category"] == "permission"
