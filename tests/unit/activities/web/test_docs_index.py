"""Finding documentation: what sites list, and what a search brings up."""

from outlast.activities.web.address_rules import WebAddress
from outlast.activities.web.docs import DocsIndex, Listed, entries_of, listed_in_llms_txt, listed_in_sitemap
from outlast.activities.web.pages import article_of_markdown

ROOT = WebAddress.parse("https://docs.example/")


def page(path: str, markdown: str) -> list:
    return entries_of(Listed(WebAddress.parse(path, base=ROOT)), article_of_markdown(markdown))


INDEX = DocsIndex(
    [
        *page("/actors", "# Actors\n\nPrograms.\n\n## Standby\n\nA standby Actor answers over HTTP at once.\n"),
        *page("/storage", "# Storage\n\nDatasets and stores. An Actor writes rows.\n"),
        *entries_of(Listed(WebAddress.parse("/platform/proxy-usage.md", base=ROOT)), None),
    ]
)


def urls(query: str, *, offset: int = 0, limit: int = 5) -> list[str]:
    return [hit.url for hit in INDEX.search(query, offset=offset, limit=limit).hits]


def test_the_best_section_of_each_page_is_found_with_its_anchor() -> None:
    assert urls("standby actor") == ["https://docs.example/actors#standby", "https://docs.example/storage"]
    hit = INDEX.search("standby", offset=0, limit=1).hits[0]
    assert hit.title == "Actors: Standby"
    assert "answers over HTTP" in hit.snippet


def test_words_are_found_in_other_forms_and_in_addresses() -> None:
    assert urls("program") == ["https://docs.example/actors"]
    assert urls("PROXIES usage") == ["https://docs.example/platform/proxy-usage.md"]


def test_results_come_in_pages() -> None:
    found = INDEX.search("actor", offset=1, limit=1)
    assert (len(found.hits), found.total, found.pages_indexed) == (1, 2, 3)


def test_a_query_is_words_and_never_syntax() -> None:
    for query in ('"', "title:x OR", "NEAR(a b)", "a* -b", "'; DROP TABLE sections; --", "   ", "😀", "x " * 500):
        assert INDEX.search(query, offset=0, limit=5).total >= 0
    assert urls("nowhere-to-be-found") == []


def test_a_sitemap_names_pages_or_further_sitemaps() -> None:
    pages = listed_in_sitemap("<urlset><url><loc>\n https://docs.example/a?x=1&amp;y=2 </loc></url></urlset>", ROOT)
    assert [(entry.address.url, entry.is_index) for entry in pages] == [("https://docs.example/a?x=1&y=2", False)]
    index = listed_in_sitemap("<sitemapindex><sitemap><loc>/more.xml</loc></sitemap></sitemapindex>", ROOT)
    assert [(entry.address.url, entry.is_index) for entry in index] == [("https://docs.example/more.xml", True)]


def test_an_llms_txt_names_pages_with_titles() -> None:
    listed = listed_in_llms_txt("# Docs\n\n- [Actors](/actors.md): What they are\n- [Bad](javascript:x)\n", ROOT)
    assert [(entry.address.url, entry.title, entry.description) for entry in listed] == [
        ("https://docs.example/actors.md", "Actors", "What they are")
    ]


def test_a_search_stays_within_a_part_of_the_documentation() -> None:
    found = INDEX.search("actor", offset=0, limit=5, under="https://docs.example/storage")
    assert ([hit.url for hit in found.hits], found.total) == (["https://docs.example/storage"], 1)
    beside = INDEX.search("actor", offset=0, limit=5, outside="https://docs.example/storage")
    assert "https://docs.example/storage" not in [hit.url for hit in beside.hits]
    assert beside.total >= 1
