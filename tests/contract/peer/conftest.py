"""The peer on the platform of the contract tests' service, and clients of both."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import httpx
import pytest

from tests.contract.peer.process.server import running_peer
from tests.support.http.api_client import api_client
from tests.support.http.mcp_wire import Wire
from tests.support.http.pages import WebServer
from tests.support.stacks.service import Service


@pytest.fixture(scope="package")
def peer_url(service: Service, docs_site: WebServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The peer's HTTP server."""
    with running_peer(tmp_path_factory.mktemp("peer"), service.sandbox, docs_site.url) as peer:
        yield peer.url


class Both:
    """One client of the peer and one of ours, of the same caller."""

    def __init__(self, peer: httpx.AsyncClient, ours: httpx.AsyncClient) -> None:
        self.peer, self.ours = peer, ours

    def wires(self, revision: str, query: str) -> tuple[Wire, Wire]:
        """The peer's connection, and ours with the same parameters and the mode."""
        ours = f"{query}&mode=apify" if query else "?mode=apify"
        return Wire(self.peer, revision, query, path="/"), Wire(self.ours, revision, ours)


@asynccontextmanager
async def both_of(service: Service, peer_url: str, token: str) -> AsyncIterator[Both]:
    """Clients of the user who has this token."""
    async with api_client(peer_url, token, timeout_seconds=120) as peer, service.http(token) as ours:
        yield Both(peer, ours)


@pytest.fixture
async def both(service: Service, peer_url: str) -> AsyncIterator[Both]:
    """Clients of the sandbox's first user."""
    async with both_of(service, peer_url, service.sandbox.token) as clients:
        yield clients
