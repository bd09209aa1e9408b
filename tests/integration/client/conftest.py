"""One Outlast whose models are scripted, and clients of it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from outlast.client import AsyncClient, Client, RetryPolicy
from tests.support.providers.server import ProviderServer, provider_fixture
from tests.support.stacks.api_server import MortalApi
from tests.support.stacks.fixtures import service_fixture
from tests.support.stacks.service import Service

QUICK = RetryPolicy(first_pause_seconds=0.05)


provider = provider_fixture()
service = service_fixture(
    settings_from="settings", tools=["tests.support.tools.protocol_tools", "tests.support.tools.archive_tool"]
)


@pytest.fixture(scope="session")
def settings(provider: ProviderServer) -> dict[str, str]:
    return {
        "OUTLAST_DEFAULT_TOOLS": "dev,restore-tool-output",
        "OUTLAST_TOOL_MASKING": "true",
        **provider.environment,
        "OUTLAST_MODEL_PROVIDERS": "openai,anthropic,generic",
    }


@pytest.fixture
def client(service: Service) -> Iterator[Client]:
    with Client(service.api_url, retries=QUICK) as client:
        yield client


@pytest.fixture
async def async_client(service: Service) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(service.api_url, retries=QUICK) as client:
        yield client


@pytest.fixture
async def mortal_api(service: Service, tmp_path: Path) -> AsyncIterator[MortalApi]:
    """Beside the service's own API."""
    with ExitStack() as stack:
        mortal = MortalApi(
            service, tmp_path / "mortal-api.log", stack, OUTLAST_TOOLS_FROM="tests.support.tools.protocol_tools"
        )
        await mortal.start()
        yield mortal
