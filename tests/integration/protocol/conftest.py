"""One Outlast with the tools of `protocol_tools`, two known callers, and rules of who may call what."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest
from temporalio.client import Client

from tests.support.stacks.api_server import bearer, connect
from tests.support.stacks.service import Service, running_outlast

ANN, BOB = "ann-has-this-long-key", "bob-has-another-long-key"
RULES = (
    "key:bob:hello_world=deny",
    "*:shaky=ask",
    "*:outlast--big-table=deny",
    "*:outlast--site-crawler=ask",
    "key:bob:list-tasks=deny",
)


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with running_outlast(
        tmp_path_factory.mktemp("protocol"),
        OUTLAST_TOOLS_FROM="tests.support.tools.protocol_tools",
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
