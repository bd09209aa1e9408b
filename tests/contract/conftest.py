"""One Outlast for the contract tests, with two modes of other packages and a Temporal server that can be searched."""

from collections.abc import Iterator

import pytest

from tests.support.http.pages import WebServer, docs_settings, serving_docs
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
    """A documentation of one page."""
    with serving_docs() as server:
        yield server


@pytest.fixture(scope="session")
def settings(docs_site: WebServer) -> dict[str, str]:
    return docs_settings(docs_site)
