"""Tests that share a stack run in one process, wherever the others run."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.distribution import APART, SHARING, unit_of

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("place", [*SHARING, *APART])
def test_what_is_named_exists(place: str) -> None:
    assert (ROOT / place).is_dir() if place.endswith("/") else (ROOT / place).is_file()


@pytest.mark.parametrize("place", APART)
def test_a_file_apart_is_a_unit_of_its_own(place: str) -> None:
    assert place.startswith(SHARING)
    assert unit_of(f"{place}::test_it[1]") == place


def test_a_shared_stack_is_started_in_one_process_only(tmp_path: Path) -> None:
    """With what is installed: the groups of pytest-xdist ended unnoticed when pytest changed."""
    (tmp_path / "pytest.ini").touch()
    (tmp_path / "conftest.py").write_text("from tests.conftest import pytest_xdist_make_scheduler\n")
    for place in ("tests/contract/", "tests/integration/turns/", "tests/unit/"):
        (tmp_path / place).mkdir(parents=True)
        many = "import pytest\n@pytest.mark.parametrize('n', range(8))\ndef test_it(n): pass\n"
        (tmp_path / place / f"test_{Path(place).name}.py").write_text(many)
    command = (sys.executable, "-m", "pytest", "-v", "-p", "xdist.plugin", "-n", "2", "--import-mode=importlib")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(ROOT)}
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    processes: dict[str, set[str]] = {}
    for process, test_id in re.findall(r"\[(gw\d)\] \[ *\d+%\] PASSED (\S+)", ran.stdout):
        processes.setdefault(unit_of(test_id), set()).add(process)
    assert len(processes) == 2 + 8, ran.stdout + ran.stderr
    assert [len(names) for names in processes.values()] == [1] * 10
