"""Which links the site crawler follows."""

import pytest

from tests.integration.actors.actor_process import actor_module

scope = actor_module("site-crawler", "crawl")
settings = actor_module("site-crawler", "settings")


def follows(url: str, **run_input: object) -> bool:
    parsed = settings.Settings.parse({"startUrls": ["https://www.example.com/docs"], **run_input})
    return scope.Scope(parsed).follows(url)


@pytest.mark.parametrize(
    ("url", "scopes"),
    [
        ("https://www.example.com/a", {"same-host", "subdomains", "any"}),
        ("http://www.example.com/a", {"same-host", "subdomains", "any"}),
        ("https://WWW.example.com:443/a", {"same-host", "subdomains", "any"}),
        ("https://example.com/a", {"subdomains", "any"}),
        ("https://api.example.com/a", {"subdomains", "any"}),
        ("https://www.example.com:8443/a", {"any"}),
        ("https://notexample.com/a", {"any"}),
        ("ftp://www.example.com/a", set()),
        ("https://www.example.com/manual.PDF", set()),
    ],
)
def test_hosts_by_scope(url, scopes):
    assert {name for name in settings.LINK_SCOPES if follows(url, linkScope=name)} == scopes


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://www.example.com/docs/a/b", True),
        ("https://www.example.com/docs/a/b/", True),
        ("https://www.example.com/docs/old/b", False),
        ("https://www.example.com/blog/", False),
    ],
)
def test_patterns(url, expected):
    include, exclude = ["https://www.example.com/docs/**"], [{"glob": "https://www.example.com/docs/old/*"}]

    assert follows(url, includeGlobs=include, excludeGlobs=exclude) is expected
