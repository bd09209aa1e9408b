"""One stack per test process; a test kills what it needs, and everything is alive again when the next one begins."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import ChaosStack
from tests.support.stacks.sandbox import running_sandbox


@pytest.fixture(scope="session")
def chaos_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosStack]:
    folder = tmp_path_factory.mktemp("chaos")
    with running_sandbox(folder) as sandbox, ChaosStack(folder, sandbox) as stack:
        yield stack


@pytest.fixture
async def chaos(chaos_stack: ChaosStack) -> AsyncIterator[Chaos]:
    await chaos_stack.bring_up()
    chaos = Chaos(chaos_stack)
    yield chaos
    await chaos.clean_up()


FURTHER_MOMENTS = {
    "test_worker_killed.py": ("[start_counted]", "[first_status_message]", "[rows_fetched]", "[2]", "[listed late]"),
    "test_api_killed.py": ("[the run was started]", "[openai-run_started]", "[default-status_message]"),
    "test_cancel.py": ("[answered too late]", "[answer truncated]", "was_killed[openai]", "left_to_cancel[openai]"),
    "test_temporal_killed.py": ("[accepted]", "[finishing]"),
    "test_limits.py": ("[concurrency]", "deadline[openai]", "spent[openai]"),
    "test_lost_starts.py": ("[marked in lists-listed late]", "[marked in details only-listed at once]"),
}
"""Variants of tests of which other variants are in every run: for `make thorough`."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "tests/chaos" in str(item.path):
            item.add_marker(pytest.mark.chaos)
            if item.name.endswith(FURTHER_MOMENTS.get(item.path.name, ())):
                item.add_marker(pytest.mark.thorough)
            # Waits have their own limits; together, on a busy machine, they may take longer than a test usually may.
            item.add_marker(pytest.mark.timeout(300))
