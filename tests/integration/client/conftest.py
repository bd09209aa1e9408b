"""One Outlast whose models are scripted, and clients of it."""

from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from outlast.client import AsyncClient, Client, RetryPolicy
from tests.support.providers.server import ProviderServer
from tests.support.stacks.model_stack import ModelStack, running_model_stack
from tests.support.stacks.mortal_api import MortalApi
from tests.support.stacks.service import Service

QUICK = RetryPolicy(first_pause_seconds=0.05)


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ModelStack]:
    with running_model_stack(tmp_path_factory.mktemp("client")) as running:
        yield running


@pytest.fixture
def service(stack: ModelStack) -> Service:
    return stack.service


@pytest.fixture
def provider(stack: ModelStack) -> ProviderServer:
    return stack.provider


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
