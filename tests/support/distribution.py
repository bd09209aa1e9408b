"""Which test process runs which tests: those that share a stack run in one, so that it is started once.

What tests share is read from their fixtures: those of a whole module, and those of a whole run that are marked as
`started_once` or `started_per_process`. Tests that are connected by such fixtures are a unit. The units that take
longest begin first: were one of them begun last, one process would work alone at the end.

pytest-xdist has groups of its own (`xdist_group`), but they have no effect with pytest 9.2. Its controller knows of a
test no more than its id, so each test process writes the units into a file for it.
"""

import json
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TypeVar

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

from tests.support.durations import expected_seconds

F = TypeVar("F", bound=Callable[..., object])

_UNITS_FILE = "OUTLAST_TEST_UNITS"
_FIRST = "gw0"
_FIRST_COLLECTS_SECONDS = 120.0
"""What cannot be collected ends that process early; the others say so, too."""


def started_once(function: F) -> F:
    """Mark the fixture of a whole run: all tests that use it run in one process.

    Without the mark, each test process that needs such a fixture sets it up for itself.
    """
    function.__dict__["started_once"] = True
    return function


def started_per_process(function: F) -> F:
    """Mark the fixture of a whole run that several processes may have: a module's tests that use it run in one.

    For what is quick to start and has many tests, which would keep one process busy for too long.
    """
    function.__dict__["started_per_process"] = True
    return function


def units_of(items: Iterable[pytest.Item]) -> dict[str, str]:
    """The unit of each test, by the test's id. A test that shares nothing is a unit of its own."""
    shared = {item.nodeid: _shared_fixtures(item) for item in items}
    names = _connected(shared.values())
    return {test: names[fixtures[0]] if fixtures else test for test, fixtures in shared.items()}


def longest_first(items: list[pytest.Item], units: Mapping[str, str]) -> None:
    """Put the units that take longest first; the others stay in the order of their names."""
    seconds = expected_seconds(units)
    items.sort(key=lambda item: (-seconds[units[item.nodeid]], units[item.nodeid]))


def _shared_fixtures(item: pytest.Item) -> list[str]:
    """The fixtures that a test shares with others, by folder or file and name."""
    information = getattr(item, "_fixtureinfo", None)  # pytest has no public name for it
    definitions: Iterable[Sequence[pytest.FixtureDef[object]]]
    definitions = information.name2fixturedefs.values() if information else ()
    used = [nearest[-1] for nearest in definitions if nearest and _is_shared(nearest[-1])]
    return sorted(f"{_sharers(definition, item)}::{definition.argname}" for definition in used)


def _sharers(definition: "pytest.FixtureDef[object]", item: pytest.Item) -> str:
    """The folder or file whose tests have the fixture together."""
    per_process = getattr(definition.func, "started_per_process", False)
    return item.nodeid.partition("::")[0] if per_process else definition.baseid


def _is_shared(definition: "pytest.FixtureDef[object]") -> bool:
    if not definition.baseid.startswith("tests"):  # pytest's own, and those of plugins
        return False
    if definition.baseid.endswith(".py") and definition.scope != "function":
        return True
    return any(getattr(definition.func, mark, False) for mark in ("started_once", "started_per_process"))


def _connected(groups: Iterable[Sequence[str]]) -> dict[str, str]:
    """One name, a folder's rather than a file's, for all fixtures that tests use together."""
    leader: dict[str, str] = {}

    def find(name: str) -> str:
        while leader.setdefault(name, name) != name:
            name = leader[name]
        return name

    for group in groups:
        for other in group[1:]:
            first, second = sorted((find(group[0]), find(other)), key=lambda name: (".py::" in name, name))
            leader[second] = first
    return {name: find(name) for group in groups for name in group}


def refuse_missing(names: Iterable[str]) -> None:
    """Raise `UsageError` for a test file or folder that does not exist: of several processes, none says so."""
    for name in names:
        if not Path(name.partition("::")[0]).exists():
            raise pytest.UsageError(f"file or directory not found: {name}")


def hand_over(units: Mapping[str, str]) -> None:
    """In a test process: write the units for the controller, which goes on when all have collected their tests."""
    if path := os.environ.get(_UNITS_FILE):
        mine = Path(f"{path}.{os.getpid()}")
        mine.write_text(json.dumps(units))
        mine.replace(path)


def after_the_first(worker: str) -> None:
    """In a test process: return at once in the first one, in the others when it has collected its tests.

    It leaves the bytecode of all modules, tests with their rewritten assertions included, which every process would
    make for itself if they began together.
    """
    path = os.environ.get(_UNITS_FILE)
    deadline = time.monotonic() + _FIRST_COLLECTS_SECONDS
    while worker != _FIRST and path and not Path(path).exists() and time.monotonic() < deadline:
        time.sleep(0.05)


@contextmanager
def awaiting_units() -> Iterator[None]:
    """In the controller, before it starts the test processes: have them write their units into a file."""
    with TemporaryDirectory(prefix="outlast-tests-") as folder:
        os.environ[_UNITS_FILE] = str(Path(folder) / "units.json")
        yield


_PROCESSES_FOR_BOTH_ENDS = 3
_PROCESSES_FOR_KILLS = 4
_KILLS = "tests/chaos/"


class ByStack(LoadScopeScheduling):
    """Gives each process one unit after the other, in the order of the tests; two of the processes choose theirs.

    One begins at the other end. The longest units mostly wait for servers, the shortest, the unit tests, need the
    processors: both go on all the time, instead of idle processors first and overloaded ones at the end. Another one
    first takes what kills processes, which waits longest, for time-outs: left to the end, it would wait alone.
    """

    def __init__(self, config: pytest.Config, log: Producer, units: dict[str, str]) -> None:
        """`units` is filled when the test processes have collected their tests."""
        super().__init__(config, log)
        self.units = units

    def _split_scope(self, nodeid: str) -> str:
        return self.units.get(nodeid, nodeid)

    def schedule(self) -> None:
        """Hand out the first units, not those with most tests: their number says little of their time."""
        if not self.units:
            self.units.update(json.loads(Path(os.environ[_UNITS_FILE]).read_text()))
        self.config.option.loadscopereorder = False
        super().schedule()

    def _assign_work_unit(self, node: WorkerController) -> None:
        if len(self.nodes) >= _PROCESSES_FOR_BOTH_ENDS and node is self.nodes[-1]:
            self.workqueue.move_to_end(next(reversed(self.workqueue)), last=False)
        elif len(self.nodes) >= _PROCESSES_FOR_KILLS and node is self.nodes[-2]:
            chosen = next((unit for unit in self.workqueue if unit.startswith(_KILLS)), None)
            if chosen is not None:
                self.workqueue.move_to_end(chosen, last=False)
        super()._assign_work_unit(node)
