"""Programs that check formats of deployments: hadolint, check-jsonschema, kubernetes-validate and shellcheck.

They are large and used by a handful of tests, so they are not among the dependencies of development: `fetch` installs
them from a lock file of their own into a folder that all checkouts of this user share.
"""

import hashlib
import subprocess
import sys
import venv
from pathlib import Path

import platformdirs

LOCK = Path(__file__).with_name("checks.lock")
"""Made from `uv pip compile` of the four names, with hashes."""


def _folder() -> Path:
    digest = hashlib.sha256(LOCK.read_bytes() + sys.version.encode()).hexdigest()
    return platformdirs.user_cache_path("outlast-tests", appauthor=False) / f"checks-{digest[:12]}"


def find(program: str) -> str | None:
    """The program, if it was fetched."""
    path = _folder() / "bin" / program
    return str(path) if (_folder() / "complete").is_file() and path.is_file() else None


def is_fetched() -> bool:
    """Whether all programs are there."""
    return (_folder() / "complete").is_file()


def fetch() -> bool:
    """Install the programs; whether they are there now."""
    folder = _folder()
    venv.create(folder, with_pip=True, clear=True)
    options = ("--quiet", "--quiet", "--disable-pip-version-check", "--no-compile", "--require-hashes")
    installed = subprocess.run(
        [
            folder / "bin" / "python",
            "-m",
            "pip",
            "install",
            *options,
            "--requirement",
            str(LOCK),
            "--constraint",
            str(LOCK),
        ],
        capture_output=True,
        check=False,
    )
    if installed.returncode != 0:
        return False
    (folder / "complete").touch()
    return True
