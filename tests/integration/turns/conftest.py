"""One Outlast whose models are played by tests/support/providers/server.py."""

from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.support.providers.script import by_position, says
from tests.support.providers.server import ProviderServer, running_provider
from tests.support.stacks.service import Service, running_outlast


@pytest.fixture(scope="session")
def provider() -> Iterator[ProviderServer]:
    with running_provider(by_position(says("Hello."))) as running:
        yield running


@pytest.fixture(scope="session")
def service(tmp_path_factory: pytest.TempPathFactory, provider: ProviderServer) -> Iterator[Service]:
    with running_outlast(
        tmp_path_factory.mktemp("turns"),
        OUTLAST_TOOLS_FROM="tests.support.tools.protocol_tools",
        OUTLAST_DEFAULT_TOOLS="actors,runs,dev",
        OUTLAST_TOOL_MASKING="true",
        OUTLAST_DELTA_SECONDS="0.2",
        OUTLAST_MODEL_PRICES='{"generic/priced": {"input": 1000, "output": 1000}}',
        **provider.environment,
    ) as running:
        yield running


@pytest.fixture
async def api(service: Service) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=service.api_url, trust_env=False, timeout=120) as client:
        yield client
