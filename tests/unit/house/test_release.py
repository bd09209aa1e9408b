"""`make release` on a copy of the repository."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.support.paths import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    subprocess.run(["git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(copy)], check=True)
    return copy


def release(repository: Path, version: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, str(ROOT / ".ci" / "release.py"), version],
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_release_has_its_version_its_changes_and_two_checked_archives(repository: Path) -> None:
    before = (repository / "CHANGELOG.md").read_text().partition("## [Unreleased]\n")[2]
    ended = release(repository, "9.8.7")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert tomllib.loads((repository / "pyproject.toml").read_text())["project"]["version"] == "9.8.7"
    unreleased, _, released = (repository / "CHANGELOG.md").read_text().partition("## [9.8.7] - ")
    assert unreleased.endswith("## [Unreleased]\n\n")
    assert released.partition("\n")[2] == before
    archives = {path.name for path in (repository / "dist").iterdir()}
    assert archives == {"outlast-9.8.7.tar.gz", "outlast-9.8.7-py3-none-any.whl"}
    assert "Nothing is published" in ended.stdout
    recorded = repository / "tests" / "histories"
    kept, unreleased = ({path.name for path in (recorded / name).iterdir()} for name in ("9.8.7", "unreleased"))
    assert kept == unreleased


def test_a_version_that_is_none_is_refused(repository: Path) -> None:
    ended = release(repository, "next")
    assert (ended.returncode, "make release VERSION=1.2.3" in ended.stderr) == (1, True)


def test_uncommitted_changes_are_refused(repository: Path) -> None:
    (repository / "new.txt").touch()
    ended = release(repository, "9.8.7")
    assert (ended.returncode, "commit them" in ended.stderr) == (1, True)
    assert not (repository / "dist").exists()


def test_a_release_without_changes_is_refused(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-01-01\n\n- All.\n")
    subprocess.run(
        ["git", "-c", "user.name=a", "-c", "user.email=a@example.org", "commit", "-qam", "x"],
        cwd=repository,
        check=True,
    )
    ended = release(repository, "9.8.7")
    assert (ended.returncode, "nothing under [Unreleased]" in ended.stderr) == (1, True)
