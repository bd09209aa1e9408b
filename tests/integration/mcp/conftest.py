"""One Outlast with the conformance suite's fixture tools, for all tests of the MCP front door."""

from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.http.mcp_wire import LEGACY, MODERN, Wire
from tests.support.stacks.fixtures import http_fixture, sandbox_fixture, service_fixture
from tests.support.stacks.service import Service

TOOLS = ("tests.support.tools.conformance_tools", "tests.support.tools.conformance_prompts")

service = service_fixture(tools=TOOLS, settings={"OUTLAST_DEFAULT_TOOLS": "actors,docs,experimental,dev"})
sandbox = sandbox_fixture()
http = http_fixture()


@pytest.fixture
def wire(http: httpx.AsyncClient) -> Wire:
    """A client of the newer protocol revision."""
    return Wire(http, MODERN)


@pytest.fixture
async def older(http: httpx.AsyncClient) -> Wire:
    """A client of the older protocol revision, which can be asked."""
    client = Wire(http, LEGACY)
    await client.initialize({"elicitation": {}})
    return client


@pytest.fixture(scope="package")
def strangers_token(service: Service) -> str:
    """The Apify token of somebody else."""
    return service.sandbox.add_user("stranger").token


@pytest.fixture
async def stranger(service: Service, strangers_token: str) -> AsyncIterator[httpx.AsyncClient]:
    """Requests of somebody else."""
    async with service.http(strangers_token) as client:
        yield client
