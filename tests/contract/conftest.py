"""One Outlast for the contract tests, with two modes of other packages and a Temporal server that can be searched."""

import json
from collections.abc import Iterator

import pytest

from tests.support.http.pages import WebServer, serving_pages
from tests.support.paths import ROOT
from tests.support.stacks.fixtures import http_fixture, service_fixture

service = service_fixture(
    tools=["tests.contract.anthropic_mode", "tests.contract.kiosk_mode"],
    database=True,
    actors=ROOT / "tests" / "contract" / "actors",
    settings_from="settings",
)
http = http_fixture()


@pytest.fixture(scope="session")
def docs_site() -> Iterator[WebServer]:
    """A documentation of one page, as HTML and as Markdown, and what the peer's search would find."""
    with serving_pages() as server:
        server.page("/guide/actors", "<html><body><main><h1>Actors</h1><p>Actors run.</p></main></body></html>")
        server.page("/guide/actors.md", "# Actors\n\nActors run.\n", "text/markdown")
        server.page("/guide/llms.txt", "# Docs\n\n- [Actors](actors): what runs\n", "text/plain")
        hit = {
            "url_without_anchor": f"{server.url}/guide/actors",
            "_snippetResult": {"content": {"value": "Actors run."}},
        }
        server.page("/search", json.dumps({"results": [{"hits": [hit]}]}), "application/json")
        yield server


@pytest.fixture(scope="session")
def settings(docs_site: WebServer) -> dict[str, str]:
    return {"OUTLAST_DOCS_SITE_URL": f"{docs_site.url}/guide/", "OUTLAST_ALLOW_PRIVATE_ADDRESSES": "true"}
