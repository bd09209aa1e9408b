"""The site crawler, as a process that crawls a real web site."""

import hashlib
import re
import threading

import pytest

from tests.integration.actors.local_site import Answer

HOME = """<!doctype html><html lang="en"><head><title> The
  docs </title><meta name="description" content="All about it"></head><body>
<nav><a href="/guide/">Guide</a> <a href="/guide/#top">Guide, again</a> <a href="/private/x">Private</a></nav>
<main><h1>Welcome</h1><p>Čau,
  <b>world</b>. See the <a href="guide/">guide</a>.</p><pre>def f():
    return 1</pre><ul><li>one</li><li>two</li></ul></main>
<a href="http://127.0.0.1:9/elsewhere">Another site</a> <a href="/manual.pdf">PDF</a>
<a href="mailto:a@b.example">Mail</a>
<a href="http://[broken">Broken</a><footer>Imprint</footer></body></html>"""


def page(title: str, *links: str) -> str:
    anchors = "".join(f'<a href="{link}">{link}</a> ' for link in links)
    return f"<html><head><title>{title}</title></head><body><p>{title}</p>{anchors}</body></html>"


def by_title(run) -> dict:
    return {row["title"]: row for row in run.rows if "title" in row}


@pytest.fixture
def docs(site):
    site.add("/", HOME)
    site.add("/guide/", page("Guide", "first", "second", "/", "/old"))
    site.add("/guide/first", page("First", "deep"))
    site.add("/guide/second", page("Second", "/gone"))
    site.add("/guide/deep", page("Deep", "deeper"))
    site.add("/old", Answer(status=301, headers={"Location": "/guide/first"}))
    site.add("/robots.txt", Answer("User-agent: *\nDisallow: /private/", headers={"Content-Type": "text/plain"}))
    return site


def test_crawls_a_site_into_rows(docs, run_actor):
    run = run_actor("site-crawler", {"startUrls": [{"url": docs.url("/#top")}], "maxDepth": 2})
    pages = by_title(run)
    home = pages["The docs"]

    assert run.exit_code == 0
    assert sorted(pages) == ["First", "Guide", "Second", "The docs"]
    assert {title: row["depth"] for title, row in pages.items()} == {"The docs": 0, "Guide": 1, "First": 2, "Second": 2}
    assert home["url"] == docs.url("/")
    assert home["description"] == "All about it"
    assert home["language"] == "en"
    assert home["statusCode"] == 200
    assert home["text"] == "Welcome\n\nČau, world. See the guide.\n\ndef f():\n    return 1\n\none\n\ntwo"
    assert "# Welcome" in home["markdown"]
    assert f"[guide]({docs.url('/guide/')})" in home["markdown"]
    assert "Imprint" not in home["markdown"]
    assert home["links"] == [
        docs.url("/guide/"),
        docs.url("/private/x"),
        "http://127.0.0.1:9/elsewhere",
        docs.url("/manual.pdf"),
    ]
    assert home["linkCount"] == 4
    assert home["contentHash"] == hashlib.sha256(home["text"].encode()).hexdigest()
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", home["crawledAt"])
    assert sorted(docs.requested_paths()) == ["/", "/guide/", "/guide/first", "/guide/first", "/guide/second", "/old"]
    assert run.output == {"crawled": 4, "failed": 0, "disallowedByRobotsTxt": 1, "notCrawled": 0}
    assert run.status_messages[0] == "Crawled 0/30 pages (0 failed), 0 queued"
    assert run.status_messages[-1] == "Crawled 4 pages (0 failed)"
    assert all(agent.startswith("outlast-site-crawler/") for _, agent in docs.requests)


def test_stops_at_the_page_limit_and_follows_the_patterns(docs, run_actor):
    settings = {"startUrls": [docs.url("/guide/")], "includeGlobs": [docs.url("/guide/**")], "respectRobotsTxt": False}
    limited = run_actor("site-crawler", {**settings, "maxPages": 2, "maxConcurrency": 1})
    excluding = run_actor("site-crawler", {**settings, "excludeGlobs": [docs.url("/guide/d*")]})

    assert len(limited.rows) == 2
    assert limited.status_messages[-1] == "Crawled 2 pages (0 failed); the limit is reached, 1 more found"
    assert sorted(by_title(excluding)) == ["First", "Guide", "Second"]
    assert "/robots.txt" not in [path for path, _ in docs.requests]


def test_pages_that_fail_give_rows_with_errors_after_their_retries(site, run_actor):
    start = site.add("/", page("Home", "/gone", "/broken", "/shaky", "/data"))
    site.add("/broken", Answer(status=500))
    site.add("/shaky", Answer(status=503), page("Shaky"))
    site.add("/data", Answer("{}", headers={"Content-Type": "application/json"}))
    run = run_actor("site-crawler", {"startUrls": [start], "maxRetries": 1})
    errors = {row["url"]: (row["statusCode"], row["error"]) for row in run.rows if "error" in row}

    assert run.exit_code == 0
    assert sorted(by_title(run)) == ["Home", "Shaky"]
    assert errors == {
        site.url("/gone"): (404, "the server answered with status 404"),
        site.url("/broken"): (500, "the server answered with status 500"),
    }
    assert site.requested_paths().count("/broken") == 2
    assert run.status_messages[-1] == "Crawled 2 pages (2 failed)"


def test_waits_when_the_site_asks_for_it(site, run_actor):
    start = site.add("/", Answer(status=429, headers={"Retry-After": "1"}), page("Home"))
    run = run_actor("site-crawler", {"startUrls": [start], "maxRetries": 0})

    assert by_title(run).keys() == {"Home"}
    assert run.output["failed"] == 0


def test_a_start_url_that_redirects_brings_its_host_into_the_crawl(site, run_actor):
    port = site.server_address[1]
    start = site.add("/", Answer(status=302, headers={"Location": f"http://localhost:{port}/home"}))
    site.add("/home", page("Home", "/next"))
    site.add("/next", page("Next"))
    run = run_actor("site-crawler", {"startUrls": [start]})

    assert {row["loadedUrl"] for row in run.rows} == {f"http://localhost:{port}/home", f"http://localhost:{port}/next"}


def test_links_that_are_no_addresses_do_no_harm(site, run_actor):
    odd = [
        "http://a\\b/",
        "http://ex*mple.com/",
        "http://xn--/",
        "http://[::1/",
        "http://127.0.0.1:99999/",
        "//",
        "/next",
    ]
    start = site.add("/", f'<base href="http://[">{page("Home", *odd)}')
    site.add("/next", page("Next"))
    run = run_actor("site-crawler", {"startUrls": [start], "linkScope": "any"})

    assert sorted(by_title(run)) == ["Home", "Next"]
    assert run.output["failed"] == 0


def test_the_run_fails_when_no_page_could_be_crawled(site, run_actor):
    disallowed = site.add("/", page("Home"))
    site.add("/robots.txt", "User-agent: *\nDisallow: /")
    run = run_actor("site-crawler", {"startUrls": [disallowed, "http://127.0.0.1:9/"], "maxRetries": 0})

    assert run.exit_code == 1
    assert run.status_messages[-1].startswith("No page could be crawled. http://127.0.0.1:9/: ")
    assert "robots.txt disallows 1 page" in run.status_messages[-1]
    assert [row["url"] for row in run.rows] == ["http://127.0.0.1:9/"]


def test_keeps_its_rows_when_terminated_while_a_page_hangs(site, launch):
    answered = threading.Event()
    start = site.add("/", page("Home", "/slow"))
    site.add("/slow", Answer(page("Slow"), hold=answered))
    actor = launch("site-crawler", {"startUrls": [start]})
    actor.read_until("Crawled 1/30 pages (0 failed), 1 queued")
    actor.terminate()
    run = actor.wait()
    answered.set()

    assert run.exit_code == 143
    assert run.status_messages[-1] == "Stopped. Crawled 1/30 pages (0 failed), 1 queued"
    assert [row["title"] for row in run.rows] == ["Home"]


@pytest.mark.parametrize(
    ("run_input", "message"),
    [
        ({}, "startUrls must name at least one URL"),
        ({"startUrls": ["example"]}, "start URL 'example' is not an http"),
        ({"startUrls": [{"url": "ftp://example.com"}]}, "start URL 'ftp://example.com' is not an http"),
        ({"startUrls": ["http://[::1"]}, "is not an http"),
        ({"startUrls": ["http://me:secret@example.com/"]}, "is not an http"),
        ({"startUrls": ["http://ex*mple.com/"]}, "is not an http"),
        ({"startUrls": ["http://example.com:99999/"]}, "is not an http"),
        ({"startUrls": [{"requestsFromUrl": "https://example.com"}]}, "startUrls must hold URLs"),
        ({"startUrls": ["https://example.com"], "maxPages": 0}, "maxPages must be between 1 and"),
        ({"startUrls": ["https://example.com"], "linkScope": "all"}, "linkScope must be one of same-host"),
        ({"startUrls": ["https://example.com"], "respectRobotsTxt": "no"}, "respectRobotsTxt must be true or false"),
    ],
)
def test_refuses_a_wrong_input_with_a_reason(settings_of, run_input, message):
    settings = settings_of("site-crawler")
    with pytest.raises(settings.InputError, match=re.escape(message)):
        settings.Settings.parse(run_input)
