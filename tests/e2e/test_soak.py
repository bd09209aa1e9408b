"""`make soak`, for a few seconds: all that it counts is as it has to be, and its table is written where it belongs."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.soak.__main__ import write_table
from tests.support.paths import ROOT


def test_the_table_of_a_soak_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    page = tmp_path / "soak.md"
    page.write_text("# Soak\n<!-- soak: begin -->\nold\n<!-- soak: end -->\nthe end\n")
    write_table(page, "new\n")
    assert page.read_text() == "# Soak\n<!-- soak: begin -->\nnew\n<!-- soak: end -->\nthe end\n"


@pytest.mark.thorough
def test_a_short_soak_ends_well() -> None:
    command = [sys.executable, "-m", "tests.soak", "--minutes", "0.2", "--clients", "4"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
