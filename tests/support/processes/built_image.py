"""Images of deploy/images/Dockerfile, built with buildah; their processes, started as a container engine does it.

No registry is asked for the base image: mmdebstrap makes one of Debian's packages. A process runs as the image's own
user, with the image's environment, in its tree mounted read-only, a volume at /data and an empty /tmp; it shares this
machine's network. That needs root.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from tests.support.paths import ROOT

BASE = "localhost/outlast-test-base"
_BUILDAH = ("buildah", "--storage-driver", "vfs")
_PACKAGES = "ca-certificates,python3,python3-venv"
_CERTIFICATES = "/etc/ssl/certs"
_ENTER = """
set -eu
root=$1 data=$2 user=$3
shift 3
mount --rbind "$root" "$root"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
for file in resolv.conf hosts; do
    if [ -e "$root/etc/$file" ]; then mount --bind "/etc/$file" "$root/etc/$file"; fi
done
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -o remount,bind,ro "$root"
mount --bind "$data" "$root/data"
cd "$root"
exec chroot --userspec="$user" . "$@"
"""


@dataclass(frozen=True)
class BuiltImage:
    """An image, unpacked in `root`, and what it says of how it is started."""

    root: Path
    user: str
    environment: Mapping[str, str]
    entrypoint: Sequence[str]
    command: Sequence[str]
    health: Sequence[str]
    labels: Mapping[str, str]
    size_bytes: int

    def starting(self, data: Path, *command: str, **environment: str) -> list[str]:
        """The command that starts `command` (the image's own without one) behind the image's entry point."""
        return self._inside(data, [*self.entrypoint, *(command or self.command)], environment)

    def checking(self, data: Path, **environment: str) -> list[str]:
        """The command of the image's health check."""
        return self._inside(data, self.health, environment)

    def within(self, data: Path, *command: str) -> list[str]:
        """Any command, as the image's user."""
        return self._inside(data, command, {})

    def _inside(self, data: Path, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
        given = [f"{name}={value}" for name, value in {**self.environment, **environment}.items()]
        enter = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", _ENTER, "sh"]
        return [*enter, str(self.root), str(data), self.user, "env", "--ignore-environment", *given, *command]

    def volume(self, folder: Path) -> Path:
        """A new volume, as an engine makes one: with the owner and the mode that /data has in the image."""
        data = folder / "data"
        data.mkdir()
        shutil.copymode(self.root / "data", data)
        there = (self.root / "data").stat()
        os.chown(data, there.st_uid, there.st_gid)
        return data


def build(target: str, folder: Path) -> str:
    """Build the image of `target` and return its name."""
    _ensure_base(folder)
    pip = folder / "pip.conf"
    settings = _pip_settings()
    pip.write_text("[global]\n" + "".join(f"{name} = {value}\n" for name, value in settings.items()))
    volumes = [f"--volume={place}:{place}:ro" for place in [_CERTIFICATES, *_folders_of(settings)]]
    name = f"localhost/outlast-test-{target}"
    options = [f"--target={target}", f"--build-arg=BASE={BASE}", f"--secret=id=pip,src={pip}", f"--tag={name}"]
    _run(
        *_BUILDAH, "build", "--layers=false", "--quiet", "--format=docker", "--isolation=chroot", *volumes, *options,
        "--file=deploy/images/Dockerfile", ".",
    )  # fmt: skip
    return name


@contextmanager
def unpacked(name: str) -> Iterator[BuiltImage]:
    """The image `name`, unpacked until the end of the block."""
    container = _run(*_BUILDAH, "from", name).strip()
    try:
        described = json.loads(_run(*_BUILDAH, "inspect", "--type=image", name))["Docker"]
        config = described["config"]
        root = Path(_run(*_BUILDAH, "mount", container).strip())
        yield BuiltImage(
            root=root,
            user=config["User"],
            environment=dict(entry.split("=", 1) for entry in config["Env"]),
            entrypoint=config["Entrypoint"],
            command=config["Cmd"],
            health=config["Healthcheck"]["Test"][1:],
            labels=config["Labels"],
            size_bytes=int(_run("du", "--summarize", "--bytes", str(root)).split()[0]),
        )
    finally:
        _run(*_BUILDAH, "rm", container)


def _ensure_base(folder: Path) -> None:
    if subprocess.run([*_BUILDAH, "inspect", "--type=image", BASE], capture_output=True, check=False).returncode == 0:
        return
    archive = folder / "base.tar"
    _run("mmdebstrap", "--quiet", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(archive))
    container = _run(*_BUILDAH, "from", "scratch").strip()
    _run(*_BUILDAH, "add", "--quiet", container, str(archive), "/")
    _run(*_BUILDAH, "commit", "--quiet", "--rm", container, BASE)


def _pip_settings() -> dict[str, str]:
    """The settings with which this machine's pip finds packages, without those of single commands.

    Constraints are left out: the lock says which versions an image has.
    """
    lines = _run("python3", "-m", "pip", "config", "list").splitlines()
    entries = (line.removeprefix("global.").partition("=") for line in lines if line.startswith("global."))
    return {name: value.strip("'").replace("\\n", " ") for name, _, value in entries if name != "constraint"}


def _folders_of(settings: Mapping[str, str]) -> list[str]:
    """Folders of this machine that pip takes packages from: an index leads to files beside it."""
    words = [word for value in settings.values() for word in value.split()]
    places = {Path(urlsplit(word).path).parent if word.startswith("file://") else Path(word) for word in words}
    return sorted(str(place) for place in places if place.is_absolute() and place.is_dir())


def _run(*command: str) -> str:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"
    return done.stdout
