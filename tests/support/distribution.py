"""Which test process runs which tests: those that share a stack run in one, so that it is started once.

pytest-xdist's own groups (`xdist_group`) do nothing with pytest 9.2, and say nothing of it: they are told by changed
test ids, which pytest no longer looks at. The ids as they are say enough: what shares a stack lies in a folder or file.
"""

import pytest
from xdist.scheduler import LoadScopeScheduling

SHARING = (
    "tests/integration/core/",
    "tests/integration/mcp/",
    "tests/integration/models/",
    "tests/integration/turns/",
    "tests/integration/tools/",
    "tests/chaos/test_turns_killed.py",
    "tests/integration/shared_tools/",
    "tests/e2e/test_cli.py",
    "tests/e2e/test_wheel.py",
    "tests/integration/client/",
    "tests/integration/client_tools/",
    "tests/integration/protocol/",
    "tests/contract/",
    "tests/integration/widgets/",
    "tests/integration/outputs/test_killed_worker.py",
    "tests/integration/outputs/test_retention.py",
)
"""Tests that share a stack, what takes longest first: were it begun last, one process would work alone at the end."""

APART = (
    "tests/integration/core/test_large_payloads.py",
    "tests/integration/core/test_secrets.py",
    "tests/integration/core/test_temporal_outage.py",
    "tests/integration/models/test_model_calls.py",
    "tests/integration/models/test_prompt_cache.py",
    "tests/integration/tools/test_actor_mcp_worker_killed.py",
)
"""Files in those folders that have stacks of their own."""


def unit_of(test_id: str) -> str:
    """What runs in one process, one after the other: the tests of a stack, or this test alone."""
    return next((place for place in (*APART, *SHARING) if test_id.startswith(place)), test_id)


def longest_first(items: list[pytest.Item]) -> None:
    """Put the units that take long before all others, which stay in the order of their names."""
    order = {place: rank for rank, place in enumerate(SHARING + APART)}
    items.sort(key=lambda item: order.get(unit_of(item.nodeid), len(order)))


class ByStack(LoadScopeScheduling):
    """Gives each process one unit after the other, in the order of the tests."""

    def _split_scope(self, nodeid: str) -> str:
        return unit_of(nodeid)

    def schedule(self) -> None:
        """Hand out the first units, not those with most tests: their number says nothing of their time."""
        self.config.option.loadscopereorder = False
        super().schedule()
