"""One Outlast with the conformance suite's fixture tools, for all tests of the MCP front door."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from deploy.local.temporal_server import TemporalServer
from tests.support.sandbox import Sandbox, running_sandbox
from tests.support.service import Service, running_service

TOOLS_FROM = "tests.support.conformance_tools,tests.support.conformance_prompts"
KEYS = "ann:0123456789abcdef-ann,bob:0123456789abcdef-bob"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """All in one test process, so that there is one stack for them."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("mcp"))
            item.add_marker(pytest.mark.integration)


@pytest.fixture(scope="session")
def shared_sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with running_sandbox(tmp_path_factory.mktemp("sandbox")) as sandbox:
        yield sandbox


@pytest.fixture(scope="session")
def service(
    tmp_path_factory: pytest.TempPathFactory, temporal_server: TemporalServer, shared_sandbox: Sandbox
) -> Iterator[Service]:
    """Worker and API with the fixture tools; a caller without a token is `local`."""
    folder = tmp_path_factory.mktemp("mcp")
    with running_service(
        folder,
        temporal_server.address,
        shared_sandbox,
        OUTLAST_TOOLS_FROM=TOOLS_FROM,
        OUTLAST_DEFAULT_TOOLS="actors,docs,experimental,dev",
    ) as running:
        yield running


@pytest.fixture
def sandbox(shared_sandbox: Sandbox) -> Iterator[Sandbox]:
    """The sandbox platform, without faults afterwards."""
    yield shared_sandbox
    shared_sandbox.clear_faults()
