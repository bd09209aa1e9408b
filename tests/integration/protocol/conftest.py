"""One Outlast with the tools of tests/support/protocol_tools.py, two known callers, and rules of who may call what."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx
import pytest
from temporalio.client import Client

from deploy.local.temporal_server import TemporalServer
from tests.support.api_server import bearer, connect
from tests.support.sandbox import Sandbox, running_sandbox
from tests.support.service import Service, running_service
from tests.support.temporal import running_temporal

ANN, BOB = "ann-has-this-long-key", "bob-has-another-long-key"
RULES = (
    "key:bob:hello_world=deny",
    "*:shaky=ask",
    "*:outlast--big-table=deny",
    "*:outlast--site-crawler=ask",
    "key:bob:list-tasks=deny",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in one test process, so that there is one stack for them."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("protocol"))
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with running_sandbox(tmp_path_factory.mktemp("sandbox")) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def own_temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """Not the one of the other tests: their workers poll the same task queue and know nothing of these tools."""
    with running_temporal(tmp_path_factory.mktemp("temporal")) as server:
        yield server


@pytest.fixture(scope="session")
def service(
    tmp_path_factory: pytest.TempPathFactory, own_temporal_server: TemporalServer, shared_sandbox: Sandbox
) -> Iterator[Service]:
    with running_service(
        tmp_path_factory.mktemp("protocol"),
        own_temporal_server.address,
        shared_sandbox,
        OUTLAST_TOOLS_FROM="tests.support.protocol_tools",
        OUTLAST_API_KEYS=f"ann:{ANN},bob:{BOB}",
        OUTLAST_PERMISSIONS=",".join(RULES),
        OUTLAST_DEFAULT_TOOLS="actors,runs,dev",
    ) as running:
        yield running


@pytest.fixture
async def api(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """Requests of ann."""
    async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=60, headers=bearer(ANN)) as client:
        yield client


@pytest.fixture
async def bob(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """Requests of somebody else."""
    async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=60, headers=bearer(BOB)) as client:
        yield client


@pytest.fixture
async def temporal(service: Service) -> Client:
    """A client of the namespace that the service serves."""
    return await connect(service.temporal_address)
