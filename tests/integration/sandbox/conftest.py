"""One server for most tests; those that kill it start their own."""

from collections.abc import Iterator

import pytest
from apify_client import ApifyClientAsync

from tests.integration.sandbox.server import SandboxServer


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    server = SandboxServer(tmp_path_factory.mktemp("sandbox") / "data", "--memory-limit-mbytes", "4096")
    server.start()
    yield server
    server.close()


@pytest.fixture
def sandbox(shared_server: SandboxServer) -> Iterator[SandboxServer]:
    yield shared_server
    shared_server.control.delete("/faults")
    shared_server.control.post("/limits", json={"memoryMbytes": 4096, "concurrentRuns": 25})


@pytest.fixture
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SandboxServer]:
    server = SandboxServer(tmp_path_factory.mktemp("sandbox") / "data")
    server.start()
    yield server
    server.close()


@pytest.fixture
async def client(sandbox: SandboxServer) -> ApifyClientAsync:
    return sandbox.client()
