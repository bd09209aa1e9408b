"""Python environments of packages that few tests and benchmarks use: installed once per user, by lock file.

They are large, or do not go together with the dependencies of development.
"""

import hashlib
import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

import platformdirs

_TOLD_CHARACTERS = 600


@dataclass(frozen=True)
class LockedEnvironment:
    """The environment of one lock file, which all checkouts of this user share."""

    lock: Path
    """Complete and with hashes: pip has nothing to resolve."""

    @property
    def folder(self) -> Path:
        """Where it is, or will be."""
        digest = hashlib.sha256(self.lock.read_bytes() + sys.version.encode()).hexdigest()
        return platformdirs.user_cache_path("outlast-tests", appauthor=False) / f"{self.lock.stem}-{digest[:12]}"

    @property
    def is_installed(self) -> bool:
        """Whether all of it is there."""
        return (self.folder / "complete").is_file()

    def program(self, name: str) -> Path:
        """The path of one of its programs, such as `python`."""
        return self.folder / "bin" / name

    def version(self, package: str) -> str:
        """The locked version of a package."""
        lines = self.lock.read_text().splitlines()
        (version,) = (line.split("==")[1].split()[0] for line in lines if line.startswith(f"{package}=="))
        return version

    def install(self) -> str | None:
        """Install it if it is not there. Returns why that is not possible, in the words of pip."""
        if self.is_installed:
            return None
        venv.create(self.folder, clear=True)
        options = ("-qq", "--disable-pip-version-check", "--no-deps", "--require-hashes", "--requirement", self.lock)
        pip = (sys.executable, "-m", "pip", "--python", self.program("python"))
        done = subprocess.run((*pip, "install", *options), capture_output=True, text=True, check=False)
        if done.returncode != 0:
            return (done.stderr or done.stdout).strip()[-_TOLD_CHARACTERS:]
        (self.folder / "complete").touch()
        return None
