"""`make install` shows its steps: with their progress on a terminal, in one line each elsewhere."""

import re
import subprocess

from tests.support.paths import ROOT
from tests.support.processes.terminal import on_terminal
from tests.support.stacks.stack_config import clean_environment

DRY_RUN = ["make", "--dry-run", "--always-make", "install"]
STEPS = re.compile(r'^echo "\[(\d)/(\d)\] \w+', re.MULTILINE)


def shell(**extra: str) -> dict[str, str]:
    return {**{name: value for name, value in clean_environment().items() if name != "CI"}, **extra}


def printed_on_terminal(**extra: str) -> str:
    with on_terminal(DRY_RUN, shell(**extra)) as terminal:
        assert terminal.end() == 0
    return terminal.screen


def test_each_step_is_announced() -> None:
    printed = subprocess.run(DRY_RUN, cwd=ROOT, env=shell(), capture_output=True, text=True, check=True).stdout
    assert STEPS.findall(printed) == [("1", "4"), ("2", "4"), ("3", "4"), ("4", "4")]
    assert "uv pip install --quiet" in printed


def test_packages_are_shown_on_a_terminal_but_not_in_ci() -> None:
    assert "uv pip install  --system-certs" in printed_on_terminal()
    assert "uv pip install --quiet" in printed_on_terminal(CI="true")
