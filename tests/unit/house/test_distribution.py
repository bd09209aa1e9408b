"""Tests that share a stack run in one process, wherever the others run, and what takes long begins first."""

import os
import re
import subprocess
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from tests.support.distribution import after_the_first, hand_over, longest_first, refuse_missing
from tests.support.durations import differences, recorded_seconds
from tests.support.paths import ROOT

OTHERS = ["gw1", "gw2"]
FILES = {
    "pytest.ini": "",
    "conftest.py": """
        from tests.conftest import pytest_addoption, pytest_collection_modifyitems, pytest_configure
        from tests.conftest import pytest_xdist_make_scheduler
        """,
    "tests/apart/test_alone.py": """
        import pytest
        @pytest.mark.parametrize("n", range(8))
        def test_it(n): pass
        """,
    "tests/shared/conftest.py": """
        import pytest
        from tests.support.distribution import started_once
        @pytest.fixture(scope="session")
        @started_once
        def stack(): pass
        @pytest.fixture(scope="session")
        @started_once
        def other_stack(): pass
        @pytest.fixture
        def client(stack): pass
        """,
    "tests/shared/test_clients.py": """
        import pytest
        @pytest.mark.parametrize("n", range(8))
        def test_it(client, n): pass
        def test_without_a_stack(): pass
        """,
    "tests/shared/test_others.py": """
        import pytest
        @pytest.mark.parametrize("n", range(8))
        def test_it(other_stack, n): pass
        def test_both(stack, other_stack): pass
        """,
    "tests/shared/test_own.py": """
        import pytest
        @pytest.fixture(scope="module")
        def stack(): pass
        @pytest.mark.parametrize("n", range(8))
        def test_it(client, n): pass
        """,
    "tests/chaos/test_kills.py": """
        def test_a_kill(): pass
        def test_another_kill(): pass
        """,
    "tests/each/conftest.py": """
        import pytest
        from tests.support.distribution import started_per_process
        @pytest.fixture(scope="session")
        @started_per_process
        def quick_stack(): pass
        @pytest.fixture(scope="session")
        def one_per_process(): pass
        """,
    "tests/each/test_first.py": """
        import pytest
        @pytest.mark.parametrize("n", range(4))
        def test_it(quick_stack, n): pass
        """,
    "tests/each/test_second.py": """
        import pytest
        @pytest.mark.parametrize("n", range(4))
        def test_it(quick_stack, n): pass
        """,
    "tests/each/test_each.py": """
        import pytest
        @pytest.mark.parametrize("n", range(4))
        def test_it(one_per_process, n): pass
        """,
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """The process and the id of each test of a run in two processes."""
    return run_in(2, tmp_path_factory.mktemp("distribution"))


def run_in(count: int, folder: Path) -> list[tuple[str, str]]:
    """The process and the id of each test of a run in so many processes, with what is installed."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(line.removeprefix(" " * 8) for line in text.splitlines()) + "\n")
    options = ("-v", "-p", "xdist.plugin", "-n", str(count), "--import-mode=importlib")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    found = re.findall(r"\[(gw\d)\] \[ *\d+%\] PASSED (\S+)", done.stdout)
    assert len(found) == 8 + 9 + 9 + 8 + 2 + 3 * 4, done.stdout + done.stderr
    return found


def processes(ran: list[tuple[str, str]], pattern: str) -> set[str]:
    return {process for process, test in ran if re.match(pattern, test)}


def test_tests_of_one_stack_run_in_one_process(ran: list[tuple[str, str]]) -> None:
    assert len(processes(ran, "tests/shared/test_clients.py::test_it")) == 1


def test_stacks_that_one_test_uses_together_are_started_in_one_process(ran: list[tuple[str, str]]) -> None:
    assert len(processes(ran, r"tests/shared/test_(clients.py::test_it|others.py)")) == 1


def test_a_file_with_a_stack_of_its_own_is_a_unit_of_its_own(ran: list[tuple[str, str]]) -> None:
    own = processes(ran, "tests/shared/test_own.py")
    assert len(own) == 1
    assert own != processes(ran, "tests/shared/test_clients.py::test_it")


def test_a_module_runs_in_one_process_where_each_process_has_its_stack(ran: list[tuple[str, str]]) -> None:
    for name in ("first", "second"):
        assert len(processes(ran, f"tests/each/test_{name}.py")) == 1


@pytest.fixture(scope="module")
def ran_in_four(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, str]]:
    """The same of a run in four processes."""
    return run_in(4, tmp_path_factory.mktemp("four"))


def test_one_of_several_processes_begins_with_the_shortest(ran_in_four: list[tuple[str, str]]) -> None:
    first = dict(reversed(ran_in_four))
    alone = [test for test in first.values() if "test_alone" in test or "test_without_a_stack" in test]
    assert (len(first), alone) == (4, ["tests/shared/test_clients.py::test_without_a_stack"])


def test_one_of_more_processes_runs_what_kills_from_the_start(ran_in_four: list[tuple[str, str]]) -> None:
    (killer,) = processes(ran_in_four, "tests/chaos/")
    assert [test for process, test in ran_in_four if process == killer][:2] == [
        "tests/chaos/test_kills.py::test_a_kill",
        "tests/chaos/test_kills.py::test_another_kill",
    ]


@dataclass
class Named:
    nodeid: str


def test_what_takes_long_begins_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.support.durations.recorded_seconds", lambda: {"slow": 90, "slower": 300})
    units = {"b::1": "b", "s::1": "slow", "many::1": "many", "many::2": "many", "t::1": "slower", "a::1": "a"}
    tests = [Named(name) for name in units]
    longest_first(cast("list[pytest.Item]", tests), units)
    assert [test.nodeid for test in tests] == ["t::1", "s::1", "many::1", "many::2", "a::1", "b::1"]


def test_folders_with_a_service_are_packages_so_that_it_ends_with_their_last_test() -> None:
    """pytest takes the scope `package` for `session` in a folder without `__init__.py`."""
    folders = {path.parent for path in (ROOT / "tests").rglob("conftest.py") if "service_fixture(" in path.read_text()}
    assert len(folders) > 5
    assert {folder for folder in folders if not (folder / "__init__.py").is_file()} == set()


def test_every_recorded_unit_exists() -> None:
    for unit in recorded_seconds():
        place, _, name = unit.partition("::")
        path = ROOT / place
        sources = (path, path.parent / "conftest.py") if path.is_file() else (path / "conftest.py",)
        texts = [source.read_text() for source in sources if source.is_file()]
        assert any(re.search(rf"\b{re.escape(name.partition('[')[0])}\b", text) for text in texts), unit


def test_a_unit_that_is_gone_is_told() -> None:
    assert differences({"a": 100}, {"a": 100, "b": 50}) == ["b no longer exists"]


def test_a_slow_machine_is_no_difference() -> None:
    assert differences({"a": 1000, "b": 500}, {"a": 100, "b": 50}) == []


def test_a_unit_that_has_grown_is_told() -> None:
    found = differences({"a": 100, "b": 300, "c": 50}, {"a": 100, "b": 20, "c": 10})
    assert [line.split()[0] for line in found] == ["b"]


def test_a_long_unit_without_a_record_is_told() -> None:
    assert [line.split()[0] for line in differences({"a": 100, "new": 70}, {"a": 100})] == ["new"]


def test_a_path_that_does_not_exist_is_named() -> None:
    refuse_missing([__file__, f"{__file__}::test_it"])
    with pytest.raises(pytest.UsageError, match=r"not found: tests/nope\.py"):
        refuse_missing([__file__, "tests/nope.py::test_it"])


def test_the_first_process_collects_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OUTLAST_TEST_UNITS", str(tmp_path / "units.json"))
    after_the_first("gw0")  # waits for nobody
    ended = list[str]()
    others = [threading.Thread(target=lambda name=name: (after_the_first(name), ended.append(name))) for name in OTHERS]
    for other in others:
        other.start()
    assert ended == []
    hand_over({"tests/a.py::test_it": "a"})
    for other in others:
        other.join(30)
    assert sorted(ended) == OTHERS
