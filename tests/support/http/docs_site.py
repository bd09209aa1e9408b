"""A documentation of one page, for the tools that search and read documentation."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from tests.support.http.pages import WebServer, serving_pages

PAGE, INDEX = "/guide/actors", "/guide/llms.txt"


@contextmanager
def serving_docs() -> Iterator[WebServer]:
    """The page as HTML and as Markdown, the index, and what the search of Apify's server would find."""
    with serving_pages() as server:
        server.page(PAGE, "<html><body><main><h1>Actors</h1><p>Actors run.</p></main></body></html>")
        server.page(f"{PAGE}.md", "# Actors\n\nActors run.\n", "text/markdown")
        server.page(INDEX, "# Docs\n\n- [Actors](actors): what runs\n", "text/plain")
        hit = {
            "url_without_anchor": f"{server.url}{PAGE}",
            "_snippetResult": {"content": {"value": "Actors run."}},
        }
        server.page("/search", json.dumps({"results": [{"hits": [hit]}]}), "application/json")
        yield server


def docs_settings(server: WebServer) -> dict[str, str]:
    """The settings of a worker whose documentation this is."""
    return {"OUTLAST_DOCS_SITE_URL": f"{server.url}/guide/", "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true"}
