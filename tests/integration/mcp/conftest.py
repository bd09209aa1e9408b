"""One Outlast with the conformance suite's fixture tools, for all tests of the MCP front door."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.stacks.api_server import bearer
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import Service, running_outlast

TOOLS_FROM = "tests.support.tools.conformance_tools,tests.support.tools.conformance_prompts"


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """Worker and API with the fixture tools; a caller without a token is `local`."""
    with running_outlast(
        tmp_path_factory.mktemp("mcp"),
        OUTLAST_TOOLS_FROM=TOOLS_FROM,
        OUTLAST_DEFAULT_TOOLS="actors,docs,experimental,dev",
    ) as running:
        yield running


@pytest.fixture(scope="session")
def shared_sandbox(service: Service) -> Sandbox:
    return service.sandbox


@pytest.fixture
def sandbox(shared_sandbox: Sandbox) -> Iterator[Sandbox]:
    """The sandbox platform, without faults afterwards."""
    yield shared_sandbox
    shared_sandbox.clear_faults()


@pytest.fixture
async def http(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    """Requests of the caller without a token."""
    async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=60) as client:
        yield client


@pytest.fixture
def wire(http: httpx.AsyncClient) -> Wire:
    """A client of the newer era."""
    return Wire(http, MODERN)


@pytest.fixture
async def older(http: httpx.AsyncClient) -> Wire:
    """A client of the older era, which can be asked."""
    client = Wire(http, LEGACY)
    await client.initialize({"elicitation": {}})
    return client


@pytest.fixture(scope="session")
def strangers_token(shared_sandbox: Sandbox) -> str:
    """The Apify token of somebody else."""
    return shared_sandbox.add_user("stranger").token


@pytest.fixture
async def stranger(service: Service, strangers_token: str) -> AsyncIterator[httpx.AsyncClient]:
    """Requests of somebody else."""
    async with httpx.AsyncClient(
        base_url=service.api_url, trust_env=False, timeout=60, headers=bearer(strangers_token)
    ) as client:
        yield client
