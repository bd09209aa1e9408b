"""The documentation site, and the shipped crawler on it."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.integration.sandbox.server import SandboxServer


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    pages = tmp_path_factory.mktemp("pages")
    (pages / "deep").mkdir()
    (pages / "README.md").write_text("# Welcome\n\nRead [the guide](guide.md#first-steps) & more.\n")
    (pages / "guide.md").write_text(
        "# The `guide`\n\n## First steps\n\nBack [home](README.md).\n\n|a|b|\n|-|-|\n|1|2|\n"
    )
    (pages / "deep" / "notes.md").write_text("No heading <script>alert(1)</script>\n")
    server = SandboxServer(tmp_path_factory.mktemp("sandbox") / "data", "--site-dir", str(pages))
    server.start()
    yield server
    server.close()


def test_markdown_is_rendered_with_links_between_all_pages(site: SandboxServer) -> None:
    home = httpx.get(f"{site.url}/site/", timeout=180).text
    assert "<title>Welcome</title>" in home
    assert 'href="guide.html#first-steps"' in home
    for address in ("/site/", "/site/guide.html", "/site/deep/notes.html"):
        assert f'<a href="{address}">' in home
    guide = httpx.get(f"{site.url}/site/guide.html", timeout=180).text
    assert "<title>The guide</title>" in guide
    assert '<h2 id="first-steps">' in guide
    assert "<table>" in guide
    assert 'href="./"' in guide
    assert "<script>" not in httpx.get(f"{site.url}/site/deep/notes.html", timeout=180).text


def test_what_is_no_page_is_not_found(site: SandboxServer) -> None:
    assert httpx.get(f"{site.url}/site/nothing.html", timeout=180).status_code == 404
    assert httpx.get(f"{site.url}/site/..%2F..%2Fetc%2Fpasswd", timeout=180).status_code == 404


def test_the_sitemap_lists_every_page(site: SandboxServer) -> None:
    sitemap = httpx.get(f"{site.url}/sitemap.xml", timeout=180).text
    assert sitemap.count("<loc>") == 3
    assert f"Sitemap: {site.url}/sitemap.xml" in httpx.get(f"{site.url}/robots.txt", timeout=180).text


async def test_the_crawler_finds_all_pages(site: SandboxServer, tmp_path: Path) -> None:
    client = site.client()
    run = await client.actor("outlast/site-crawler").call(
        run_input={"startUrls": [{"url": f"{site.url}/site/"}]}, logger=None
    )
    assert run is not None
    assert run.status == "SUCCEEDED", await client.run(run.id).log().get()
    items = (await client.dataset(run.default_dataset_id).list_items()).items
    assert sorted(item["title"] for item in items) == ["Notes", "The guide", "Welcome"]
