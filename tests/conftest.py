"""Fixtures that every test may use, the tiers of the suite, and which process runs which tests."""

import functools
import os
from collections.abc import Iterator
from pathlib import Path

import httpx
import httpx2
import hypothesis
import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from outlast.deploy.local.temporal_server import TemporalServer
from tests.support import needs
from tests.support.paths import ROOT
from tests.support.stacks.temporal import running_temporal

# A machine that also runs servers is now slow, now fast; the examples are the same in every run.
hypothesis.settings.register_profile("outlast", deadline=None, derandomize=True)
hypothesis.settings.load_profile("outlast")

# Each client would read all certificates of the machine, which takes 15 ms of a core; there are thousands of clients.
for _library, _create in (("httpx", httpx.create_ssl_context), ("httpx2", httpx2.create_ssl_context)):
    pytest.MonkeyPatch().setattr(f"{_library}._transports.default.create_ssl_context", functools.cache(_create))

# Servers in Go (Temporal, Prometheus) share the processors with many others: threads that look for work cost a tenth.
os.environ.setdefault("GOMAXPROCS", "1")

_TESTS = Path(__file__).parent


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--write-snapshots", action="store_true", help="write tests/snapshots from the code")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the integration tests, and the fast tier: what is not slow in the folders that `testpaths` names."""
    fast_folders = {ROOT / folder for folder in config.getini("testpaths")}
    for item in items:
        folders = set(item.path.parents)
        if _TESTS / "integration" in folders:
            item.add_marker(pytest.mark.integration)
        if fast_folders & folders and not item.get_closest_marker("slow"):
            item.add_marker(pytest.mark.fast)


class ByService(LoadScopeScheduling):
    """Runs the tests of one service in one process, so that the service is started once; other tests run by module."""

    def _split_scope(self, nodeid: str) -> str:
        module = ROOT / nodeid.partition("::")[0]
        below_tests = (folder for folder in module.parents if _TESTS in folder.parents)
        places = (module, *(folder / "conftest.py" for folder in below_tests))
        return str(next((place for place in places if _starts_a_service(place)), module))


@functools.cache
def _starts_a_service(place: Path) -> bool:
    return place.is_file() and "= service_fixture(" in place.read_text()


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByService:
    return ByService(config, log)


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for package in marker.args:
            needs.require(package)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    skipped = [report.longrepr for report in terminalreporter.stats.get("skipped", [])]
    for line in needs.summary(place[2] for place in skipped if isinstance(place, tuple)):
        terminalreporter.write_line(line, yellow=True)


@pytest.fixture(scope="session")
def temporal_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    """A real Temporal server, one per test process, in memory: `.address`, `.namespace`. Use a unique task queue."""
    with running_temporal(tmp_path_factory.mktemp("temporal")) as server:
        yield server
