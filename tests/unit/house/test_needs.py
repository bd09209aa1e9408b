"""Where a system package is missing, just the tests that need it are skipped, and the closing lines say so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.needs import summary
from tests.support.paths import ROOT

_CONFTEST = "from tests.conftest import pytest_runtest_setup, pytest_terminal_summary\n"
_TESTS = """
import pytest

@pytest.mark.needs("chromium")
@pytest.mark.parametrize("number", range(3))
def test_with_a_browser(number): raise AssertionError("it is run")

def test_without(): pass

@pytest.mark.skip(reason="needs thought")
def test_of_another_kind(): pass
"""


@pytest.mark.parametrize("processes", ["0", "2"])
def test_tests_without_their_package_are_skipped_and_counted_at_the_end(tmp_path: Path, processes: str) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nmarkers = needs\n")
    (tmp_path / "conftest.py").write_text(_CONFTEST)
    (tmp_path / "test_it.py").write_text(_TESTS)
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "xdist.plugin", "-n", processes],
        cwd=tmp_path,
        env={**os.environ, "PATH": "", "PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    *_, said, closing = ended.stdout.splitlines()
    assert said == "Skipped 3, needs chromium: not installed; as root: apt-get install chromium", closing
    assert "1 passed, 4 skipped" in closing


def test_tests_that_are_skipped_for_other_reasons_are_not_counted() -> None:
    assert summary(["Skipped: offline: the client cannot be installed", "Skipped: needs thought"]) == []


def test_missing_packages_are_named_once_where_they_cannot_be_installed(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tests.support.needs"],
        cwd=ROOT,
        env={**os.environ, "PATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.count("apt-get install chromium-headless-shell libatomic1 chromium prometheus") == 1
