"""`make bench ARGS=peers` without a package registry says what cannot be installed, and measures nothing."""

import os
import subprocess
import sys
from pathlib import Path

from tests.benchmarks.peers import figures
from tests.support.paths import ROOT
from tests.support.ports import free_address


def test_what_cannot_be_installed_is_named_and_no_figure_is_written(tmp_path: Path) -> None:
    kept = figures.FILE.read_bytes()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PIP_")}
    nothing_answers = {"PIP_CONFIG_FILE": os.devnull, "PIP_INDEX_URL": f"{free_address()}/simple", "PIP_RETRIES": "0"}
    ended = subprocess.run(
        [sys.executable, "-m", "tests.benchmarks", "peers"],
        cwd=ROOT,
        env={**clean, **nothing_answers, "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 1, ended.stderr
    assert (
        "restate: cannot be installed from the index of Python packages, which must be reachable once" in ended.stderr
    )
    assert "Traceback" not in ended.stderr
    assert "ran to its end" in ended.stdout
    assert figures.FILE.read_bytes() == kept
