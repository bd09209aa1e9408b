"""One stack per test process; a test kills what it needs, and everything is alive again when the next one begins."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from tests.support.http.pages import WebServer, docs_settings, serving_docs
from tests.support.paths import TEST_ACTORS
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import ChaosStack
from tests.support.stacks.sandbox import running_sandbox


@pytest.fixture(scope="session")
def docs_site() -> Iterator[WebServer]:
    """A documentation of one page."""
    with serving_docs() as server:
        yield server


@pytest.fixture(scope="session")
def chaos_stack(tmp_path_factory: pytest.TempPathFactory, docs_site: WebServer) -> Iterator[ChaosStack]:
    folder = tmp_path_factory.mktemp("chaos")
    with (
        running_sandbox(folder, "--actors", str(TEST_ACTORS / "toolbox")) as sandbox,
        ChaosStack(folder, sandbox, **docs_settings(docs_site)) as stack,
    ):
        yield stack


@pytest.fixture
async def chaos(chaos_stack: ChaosStack) -> AsyncIterator[Chaos]:
    await chaos_stack.bring_up()
    chaos = Chaos(chaos_stack)
    yield chaos
    await chaos.clean_up()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.chaos)
            # Waits have their own limits; together, on a busy machine, they may take longer than a test usually may.
            item.add_marker(pytest.mark.timeout(600))
