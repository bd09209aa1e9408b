"""Where the peers are installed: environments of their own in a cache folder of this user, by lock files.

They are not among the dependencies of development: they are large, and only `make bench ARGS=peers` uses them.
"""

import hashlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import platformdirs

from tests.benchmarks.report import CannotRunError
from tests.support.locked_environments import LockedEnvironment

_LOCKS = Path(__file__).with_name("locks")
"""Made with `uv pip compile --universal --generate-hashes --no-annotate` of what the apps import, in the newest:
`apify-client` and dbos, fastapi, uvicorn; fastmcp, fastmcp-tasks; prefect, fastapi<0.155 (prefect 3.8.8 does not start
with a newer one); restate-sdk, hypercorn."""
_NPM = Path(__file__).with_name("npm")
_TOLD_CHARACTERS = 600


class NotInstalledError(CannotRunError):
    """A peer cannot be installed here; the message says what was tried and what it takes."""


def python_of(peer: str) -> Path:
    """The Python of a peer's environment, which is installed when it is not there yet. Raises `NotInstalledError`."""
    environment = _environment(peer)
    if not environment.is_installed:
        _tell(peer)
    if (told := environment.install()) is not None:
        raise _not_installed(peer, "the index of Python packages", told)
    return environment.program("python")


def version_of(peer: str, package: str) -> str:
    """The locked version of one of a peer's packages."""
    return _environment(peer).version(package)


def _environment(peer: str) -> LockedEnvironment:
    return LockedEnvironment(_LOCKS / f"{peer}.lock")


def version_told(server: str) -> str:
    """What a program says that its version is."""
    told = subprocess.run([server, "--version"], capture_output=True, text=True, check=True).stdout
    found = re.search(r"\d+(?:\.\d+)+", told)
    assert found is not None, told
    return found[0]


def restate_server() -> Path:
    """Restate's server, which is installed when it is not there yet. Raises `NotInstalledError`."""
    locked = (_NPM / "package-lock.json").read_bytes()
    folder = _folder("restate-server", locked)
    if not (folder / "complete").is_file():
        if shutil.which("npm") is None:
            raise NotInstalledError("restate: npm is not installed; as root: apt-get install npm")
        _tell("restate-server")
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(_NPM, folder)
        npm = ("npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
        done = subprocess.run(npm, cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            told = (done.stderr or done.stdout).strip()[-_TOLD_CHARACTERS:]
            raise _not_installed("restate", "the registry of npm", told)
        (folder / "complete").touch()
    (program,) = folder.glob("node_modules/@restatedev/restate-server-*/bin/restate-server")
    return program


def program(peer: str, name: str, package: str) -> str:
    """A program of a Debian package that a peer needs. Raises `NotInstalledError` when it is not there."""
    found = shutil.which(name)
    if found is None:
        raise NotInstalledError(f"{peer}: {name} is not installed; as root: apt-get install {package}")
    return found


def _folder(name: str, locked: bytes) -> Path:
    digest = hashlib.sha256(locked).hexdigest()
    return platformdirs.user_cache_path("outlast-bench", appauthor=False) / "peers" / f"{name}-{digest[:12]}"


def _tell(name: str) -> None:
    print(f"  installing {name} (once) ...", file=sys.stderr, flush=True)


def _not_installed(peer: str, registry: str, told: str) -> NotInstalledError:
    return NotInstalledError(
        f"{peer}: cannot be installed from {registry}, which must be reachable once. It answered:\n{told}"
    )
