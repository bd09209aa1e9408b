"""Where state and documentation lie: for an installed package, and for a checkout."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from outlast import paths

ROOT = Path(__file__).parents[3]
ASK = "from outlast import paths; print(paths.checkout(), paths.default_data_dir(), paths.docs_dir(), sep='\\n')"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """A folder that holds the package as an installation does: without a repository around it."""
    site = tmp_path / "site-packages"
    shutil.copytree(ROOT / "outlast", site / "outlast", ignore=lambda folder, names: [n for n in names if "." not in n])
    return site


def ask(site: Path, folder: Path, **environment: str) -> list[str]:
    given = {**os.environ, "PYTHONPATH": str(site), **environment}
    asked = subprocess.run(
        [sys.executable, "-P", "-c", ASK], cwd=folder, env=given, capture_output=True, text=True, check=False
    )
    assert asked.returncode == 0, asked.stderr
    return asked.stdout.splitlines()


def test_an_installed_package_keeps_its_state_per_user_whatever_the_current_folder(
    installed: Path, tmp_path: Path
) -> None:
    told = [ask(installed, folder, XDG_DATA_HOME=str(tmp_path / "share")) for folder in (tmp_path, Path("/"))]
    assert told[0] == told[1] == ["None", str(tmp_path / "share" / "outlast"), str(installed / "outlast" / "docs")]


def test_a_checkout_keeps_its_state_to_itself_and_serves_its_own_documentation() -> None:
    assert paths.checkout() == ROOT
    assert paths.default_data_dir() == ROOT / ".outlast"
    assert (paths.docs_dir() / "index.md").is_file()
