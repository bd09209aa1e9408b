"""`make release VERSION=1.2.3`: version, changelog and histories are closed, both archives built and checked.

Works on the repository in the current folder, and publishes nothing.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tomllib
from datetime import UTC, datetime
from pathlib import Path

_VERSION = re.compile(r"\d+\.\d+\.\d+((a|b|rc)\d+)?")
_UNRELEASED = "## [Unreleased]\n"


def main() -> None:
    """Release the version that the command line names; exit code 1 and one line say why that is not possible."""
    parser = argparse.ArgumentParser(prog="make release", description=__doc__)
    parser.add_argument("version")
    version = parser.parse_args().version
    if not _VERSION.fullmatch(version):
        sys.exit(f"{version!r} is no version: make release VERSION=1.2.3")
    if _output("git", "status", "--porcelain"):
        sys.exit("The working tree has changes: commit them or put them aside first.")
    changelog = released_changelog(Path("CHANGELOG.md").read_text(), version, datetime.now(UTC).date().isoformat())
    project = with_version(Path("pyproject.toml").read_text(), version)
    keep_histories(Path("tests/histories"), version)
    Path("CHANGELOG.md").write_text(changelog)
    Path("pyproject.toml").write_text(project)
    archives = build()
    print(f"\nBuilt and checked: {', '.join(map(str, archives))}. Nothing is published. When you are content:")
    print(f"  git add tests/histories && git commit -am 'Version {version}'")
    print(f"  git tag v{version} && git push origin main v{version}")
    print(f"  {Path(sys.executable).parent / 'twine'} upload dist/*")


def released_changelog(text: str, version: str, date: str) -> str:
    """Move what is unreleased below a heading for `version`. Ends the program when that is not possible."""
    before, heading, after = text.partition(_UNRELEASED)
    if f"## [{version}]" in text:
        sys.exit(f"CHANGELOG.md has {version} already.")
    if not heading or not re.search(r"^- ", after.partition("\n## ")[0], re.MULTILINE):
        sys.exit("CHANGELOG.md has nothing under [Unreleased].")
    return f"{before}{heading}\n## [{version}] - {date}\n{after}"


def keep_histories(folder: Path, version: str) -> None:
    """Keep what this version recorded: every later one has to replay it."""
    shutil.copytree(folder / "unreleased", folder / version)


def with_version(text: str, version: str) -> str:
    """Return pyproject.toml with this version, which stands nowhere else."""
    changed = re.sub(r'^version = "[^"]*"$', f'version = "{version}"', text, count=1, flags=re.MULTILINE)
    if tomllib.loads(changed)["project"]["version"] != version:
        sys.exit("pyproject.toml has no version that can be set.")
    return changed


def build() -> list[Path]:
    """Build the source distribution, and the wheel from it, into `dist/`; and check their metadata."""
    shutil.rmtree("dist", ignore_errors=True)
    _run(sys.executable, "-m", "build", "--no-isolation")
    archives = sorted(Path("dist").iterdir())
    _run(sys.executable, "-m", "twine", "check", "--strict", *map(str, archives))
    return archives


def _run(*command: str) -> None:
    if subprocess.run(command, check=False).returncode != 0:
        sys.exit(f"Failed: {' '.join(command)}")


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
