"""Where Outlast keeps its state and finds its documentation, and how much disk space is free there.

A full disk fails late: histories, outputs and the audit log are written by different processes, and each of them fails
in its own way. So the API stops being ready while there is still a reserve, and is ready again as soon as there is
more.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import unquote, urlsplit

import platformdirs

_PRIVATE = 0o077

_PACKAGE = Path(__file__).resolve().parent


def checkout() -> Path | None:
    """The repository that this code runs from (an editable installation), None for an installed package."""
    parent = _PACKAGE.parent
    return parent if (parent / "pyproject.toml").is_file() and (parent / "worker").is_dir() else None


def default_data_dir() -> Path:
    """The folder for state when neither `--data-dir` nor `OUTLAST_DATA_DIR` names one.

    Per user (on Linux `~/.local/share/outlast`, or below `XDG_DATA_HOME`), so that commands in any folder find the same
    stack. In a checkout its `.outlast`, so that development leaves the user's own state alone. Nothing is created here.
    """
    repository = checkout()
    return repository / ".outlast" if repository else platformdirs.user_data_path("outlast", appauthor=False)


def store_folder(store_url: str | None, data_dir: Path) -> Path | None:
    """The folder of the output store that `OUTLAST_STORE_URL` names; None for a store that is not on this machine."""
    if not store_url:
        return data_dir / "outputs"
    if "://" in store_url and not store_url.startswith("file://"):
        return None
    path = unquote(urlsplit(store_url).path) if store_url.startswith("file://") else store_url
    return Path(path).expanduser().absolute()


def keep_files_private() -> None:
    """Let only their owner read what this process creates from now on, wherever the settings put it."""
    os.umask(_PRIVATE)


def docs_dir() -> Path:
    """The folder with the documentation's Markdown pages, which the sandbox serves as a site."""
    return (checkout() or _PACKAGE) / "docs"


def is_tools_folder(name: str) -> bool:
    """Return whether a name in `--tools-from` is the path of a folder, and not the name of a package."""
    path = Path(name)
    return path.is_dir() and ("/" in name or not (path / "__init__.py").is_file())


DEFAULT_RESERVE_MBYTES = 64
RESERVE_VARIABLE = "OUTLAST_DISK_RESERVE_MBYTES"
_LEAST_INODES = 100
"""A file system without room for further files is full, however many bytes are free."""


def written_places(data_dir: Path, store_url: str | None, audit_file: str | Path | None) -> dict[str, Path]:
    """The folders on this machine that are written to, by what they hold: `data`, `outputs`, `audit`."""
    outputs = store_folder(store_url, data_dir)
    places = {"data": data_dir, "outputs": outputs, "audit": Path(audit_file).parent if audit_file else None}
    return {name: place.expanduser() for name, place in places.items() if place is not None}


def free_bytes(place: Path) -> int:
    """Free space for what is written at `place`, which need not exist yet; 0 where no further file can be made."""
    absolute = place.absolute()
    found = os.statvfs(next(one for one in (absolute, *absolute.parents) if one.exists()))
    return 0 if found.f_files and found.f_favail < _LEAST_INODES else found.f_bavail * found.f_frsize


def short_places(places: Mapping[str, Path], reserve_bytes: int) -> dict[str, int]:
    """Free bytes of those places that have less than the reserve. Those that do not exist are left out."""
    free = {name: free_bytes(place) for name, place in places.items() if place.exists()}
    return {name: size for name, size in free.items() if size < reserve_bytes}


def shortage(places: Mapping[str, Path], reserve_bytes: int) -> str | None:
    """A sentence about the disk with the least space, when that is less than the reserve; None when none is."""
    short = short_places(places, reserve_bytes)
    if not short:
        return None
    name = min(short, key=lambda one: short[one])
    return (
        f"The disk of {places[name]} has {short[name] / 1e6:.0f} MB free, less than the reserve of "
        f"{reserve_bytes / 1e6:.0f} MB ({RESERVE_VARIABLE}). Free disk space; work continues by itself then."
    )
