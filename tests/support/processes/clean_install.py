"""The built archives of this repository, and environments that hold a wheel and what it declares, and nothing else."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import venv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.support.paths import ROOT


@dataclass(frozen=True)
class CleanInstall:
    """An environment of its own, with a home of its own for the state of the user who works in it."""

    folder: Path
    home: Path

    def command(self, *arguments: str) -> list[str]:
        """`outlast` of this environment."""
        return [str(self.folder / "bin" / "outlast"), *arguments]

    def environment(self, **extra: str) -> dict[str, str]:
        """What a user's shell has, and nothing of this process's settings."""
        path = f"{self.folder / 'bin'}{os.pathsep}{os.defpath}"
        return {"PATH": path, "HOME": str(self.home), "LANG": "C.UTF-8", "COLUMNS": "100", **extra}

    def run(self, folder: Path, *arguments: str, **extra: str) -> "subprocess.CompletedProcess[str]":
        """Run `outlast` in `folder` to its end."""
        return subprocess.run(
            self.command(*arguments),
            cwd=folder,
            env=self.environment(**extra),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )


def build(source: Path, target: Path, *kinds: str) -> None:
    """Build the archives (`--wheel`, `--sdist`) of the project in `source`, without fetching anything."""
    _run(sys.executable, "-m", "build", "--no-isolation", *kinds, "--outdir", str(target), str(source))


def install(wheel: Path, folder: Path, *extras: str) -> CleanInstall:
    """Install a wheel and what it declares, in the versions of the running environment, whose files are linked.

    The environment cannot import anything else: a dependency that is used and not declared is missing in it.
    """
    venv.create(folder / "venv", symlinks=True)
    python = folder / "venv" / "bin" / "python"
    (folder / "home").mkdir()
    _run(
        sys.executable,
        "-m",
        "pip",
        "--python",
        str(python),
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        str(wheel),
    )
    site = next((folder / "venv" / "lib").glob("python*")) / "site-packages"
    for distribution in _declared(f"outlast[{','.join(extras)}]" if extras else "outlast"):
        _link(distribution, site)
    return CleanInstall(folder / "venv", folder / "home")


def _declared(requirement: str) -> Iterator[importlib.metadata.Distribution]:
    """Everything that `requirement` needs, directly or not; not what it names."""
    first = Requirement(requirement)
    seen = {(first.name, frozenset(first.extras))}
    found = {first.name}
    waiting = [first]
    while waiting:
        needed = waiting.pop()
        distribution = importlib.metadata.distribution(needed.name)
        if needed.name not in found:
            found.add(needed.name)
            yield distribution
        for line in distribution.requires or ():
            further = Requirement(line)
            further.name = canonicalize_name(further.name)
            key = (further.name, frozenset(further.extras))
            if key not in seen and _applies(further, needed.extras):
                seen.add(key)
                waiting.append(further)


def _applies(requirement: Requirement, extras: set[str]) -> bool:
    marker = requirement.marker
    return marker is None or any(marker.evaluate({"extra": extra}) for extra in (extras or {""}))


def _link(distribution: importlib.metadata.Distribution, site: Path) -> None:
    for file in distribution.files or ():
        source = Path(str(distribution.locate_file(file)))
        target = Path(os.path.normpath(site / file))
        if not source.is_file() or target.exists():  # several distributions may have files of one name
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(source, target)
        except OSError:  # another file system
            shutil.copy2(source, target)


def _run(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
