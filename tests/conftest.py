"""Fixtures that every test may use."""

import functools
import gc
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import httpx2
import hypothesis
import pytest
from xdist import get_xdist_worker_id, is_xdist_worker
from xdist.remote import Producer

from outlast.deploy.local.temporal_server import TemporalServer
from tests.support import needs
from tests.support.distribution import (
    ByStack,
    after_the_first,
    awaiting_units,
    hand_over,
    longest_first,
    refuse_missing,
    units_of,
)
from tests.support.durations import DurationLog
from tests.support.stacks.temporal import running_temporal

# A machine that also runs servers is now slow, now fast; the examples are the same in every run.
hypothesis.settings.register_profile("outlast", deadline=None, derandomize=True)
hypothesis.settings.load_profile("outlast")

# Each client would read all certificates of the machine, which takes 15 ms of a core; there are thousands of clients.
for _library, _create in (("httpx", httpx.create_ssl_context), ("httpx2", httpx2.create_ssl_context)):
    pytest.MonkeyPatch().setattr(f"{_library}._transports.default.create_ssl_context", functools.cache(_create))

# Servers in Go (Temporal, Prometheus) share the processors with many others: threads that look for work cost a tenth.
os.environ.setdefault("GOMAXPROCS", "1")

_INTEGRATION = Path(__file__).with_name("integration")
_UNITS = pytest.StashKey[dict[str, str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--record-durations", action="store_true", help="record how long the units of tests take")
    parser.addoption("--write-snapshots", action="store_true", help="write tests/snapshots from the code")


def pytest_configure(config: pytest.Config) -> None:
    units = config.stash[_UNITS] = {}
    if hasattr(config, "workerinput"):
        return
    refuse_missing(config.args)
    config.pluginmanager.register(DurationLog(units, record=bool(config.getoption("--record-durations"))))
    until_the_end = ExitStack()
    until_the_end.enter_context(awaiting_units())
    config.add_cleanup(until_the_end.close)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """What is imported and collected stays until the end: nobody looks through it for garbage, now or between tests."""
    if is_xdist_worker(session):
        after_the_first(get_xdist_worker_id(session))
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if _INTEGRATION in item.path.parents:
            item.add_marker(pytest.mark.integration)
    units = units_of(items)
    config.stash[_UNITS].update(units)
    longest_first(items, units)
    if hasattr(config, "workerinput"):
        hand_over(units)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByStack:
    return ByStack(config, log, config.stash[_UNITS])


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
