"""One Outlast per test process: worker and API as real processes, on a real Temporal server and the sandbox."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from temporalio.client import Client

from outlast.deploy.local.temporal_server import TemporalServer
from tests.support.stacks.api_server import connect
from tests.support.stacks.sandbox import Sandbox, running_sandbox
from tests.support.stacks.service import Service, running_service


@pytest.fixture(scope="session")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with running_sandbox(tmp_path_factory.mktemp("sandbox")) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def service(
    tmp_path_factory: pytest.TempPathFactory, temporal_server: TemporalServer, shared_sandbox: Sandbox
) -> Iterator[Service]:
    """Worker and API for the namespace `default`, without API keys: a caller without a token is `local`."""
    folder = tmp_path_factory.mktemp("service")
    with running_service(folder, temporal_server.address, shared_sandbox) as running:
        yield running


@pytest.fixture
def sandbox(shared_sandbox: Sandbox) -> Iterator[Sandbox]:
    """The sandbox platform, without faults and with its limits as they were afterwards."""
    yield shared_sandbox
    shared_sandbox.clear_faults()
    shared_sandbox.limit(memoryMbytes=8192, concurrentRuns=25)


@pytest.fixture
async def api(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture
async def temporal(service: Service) -> Client:
    """A client of the namespace that the service serves."""
    return await connect(service.temporal_address, namespace=service.namespace)
