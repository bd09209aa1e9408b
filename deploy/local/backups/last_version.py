"""`version.json`: the version of Outlast that last worked on a data directory. An older one does not work on it."""

import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from outlast.deploy.local.backups.errors import NewerDataError
from outlast.deploy.local.private_files import private_file

FILE_NAME = "version.json"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?")
_FINAL = ("z", 0)


class LastVersion(BaseModel):
    """What the file says."""

    model_config = ConfigDict(frozen=True)

    outlast_version: str


def take_over_data(data_dir: Path) -> None:
    """Say that this version works on the directory from now on.

    Raises `NewerDataError`, and changes nothing, when a newer one did.
    """
    own = own_version()
    last = _read_version(data_dir)
    if last is not None and own is not None and _is_newer(last, own):
        raise NewerDataError(data_dir, last, own)
    if own is not None and last != own:
        write_last_version(data_dir, own)


def write_last_version(data_dir: Path, outlast_version: str) -> None:
    """Replace the file in one step."""
    draft = data_dir / f"{FILE_NAME}.tmp"
    with private_file(draft, "wb") as file:
        file.write(f"{LastVersion(outlast_version=outlast_version).model_dump_json()}\n".encode())
    draft.replace(data_dir / FILE_NAME)


def own_version() -> str | None:
    """The version that is installed; None for one that is not."""
    try:
        return version("outlast")
    except PackageNotFoundError:
        return None


def _read_version(data_dir: Path) -> str | None:
    try:
        return LastVersion.model_validate_json((data_dir / FILE_NAME).read_bytes()).outlast_version
    except (FileNotFoundError, ValidationError):
        return None


def _is_newer(one: str, other: str) -> bool:
    """By the order of releases, where both are one."""
    first, second = _order(one), _order(other)
    return first is not None and second is not None and first > second


def _order(text: str) -> tuple[tuple[int, int, int], tuple[str, int]] | None:
    match = _VERSION.match(text)
    if match is None:
        return None
    major, minor, patch, stage, number = match.groups()
    return (int(major), int(minor), int(patch)), (stage, int(number)) if stage else _FINAL
