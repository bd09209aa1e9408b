"""One Outlast for the contract tests, with a third mode and a Temporal server whose state can be searched."""

from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from tests.support.stacks.sandbox import running_sandbox
from tests.support.stacks.service import Service, running_service
from tests.support.stacks.temporal import running_temporal


@dataclass(frozen=True)
class ContractStack:
    """The service, and the folder with everything that it and its Temporal server wrote."""

    service: Service
    folder: Path


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ContractStack]:
    folder = tmp_path_factory.mktemp("contract")
    with (
        running_temporal(folder, database=folder / "temporal.db") as temporal,
        running_sandbox(folder) as sandbox,
        running_service(
            folder, temporal.address, sandbox, OUTLAST_TOOLS_FROM="tests.contract.anthropic_mode"
        ) as service,
    ):
        yield ContractStack(service, folder)


@pytest.fixture
async def http(stack: ContractStack) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=stack.service.api_url, trust_env=False, timeout=60) as client:
        yield client
