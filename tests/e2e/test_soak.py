"""`make soak`, for a few seconds: everything that it counts is as it has to be."""

import subprocess
import sys

import pytest

from tests.support.paths import ROOT


@pytest.mark.thorough
def test_a_short_soak_ends_well() -> None:
    command = [sys.executable, "-m", "tests.soak", "--minutes", "0.2", "--clients", "4"]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
