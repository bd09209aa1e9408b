"""Objects of KEDA and the Prometheus operator, checked against the types of their APIs.

Kubernetes does not know these of itself. npm's registry has packages whose types and validators are generated from the
Go types of both projects, which their custom resource definitions are generated from, too.
"""

import hashlib
import json
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import platformdirs

from tests.support.processes.installed import node, npm

SOURCES = Path(__file__).with_name("kubernetes_types")
GROUPS = frozenset({"keda.sh", "monitoring.coreos.com"})
"""The groups of objects that can be checked."""


def _folder() -> Path:
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(SOURCES.iterdir()))).hexdigest()
    return platformdirs.user_cache_path("outlast-tests", appauthor=False) / f"kubernetes-types-{digest[:12]}"


def is_fetched() -> bool:
    """Whether the types are there."""
    return (_folder() / "complete").is_file()


def fetch() -> bool:
    """Install the types with npm, by the digests of the lock file; whether they are there now."""
    folder = _folder()
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(SOURCES, folder)
    command = [*npm(), "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
    if subprocess.run(command, cwd=folder, capture_output=True, check=False).returncode != 0:
        return False
    (folder / "complete").touch()
    return is_fetched()


def complaints(objects: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with objects of `GROUPS`: unknown keys, missing ones, values of another type or form."""
    checked = subprocess.run(
        [str(node()), str(_folder() / "check.mjs")],
        input=json.dumps(objects),
        capture_output=True,
        text=True,
        check=False,
    )
    found = checked.stdout.splitlines()
    assert (checked.returncode == 0) == (found == [""]), checked.stderr
    return [line for line in found if line]
