"""Fixtures that every test may use."""

from collections.abc import Iterator

import pytest

from deploy.local.temporal_server import TemporalServer
from tests.support.temporal import running_temporal


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """A real Temporal server, one per test process, in memory: `.address`, `.namespace`. Use a unique task queue."""
    with running_temporal(tmp_path_factory.mktemp("temporal")) as server:
        yield server
