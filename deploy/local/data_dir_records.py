"""The records that a data directory keeps about itself: `version.json` and `restored.json`.

`version.json` has the version of Outlast that last worked on the directory, which an older version refuses, and
fingerprints of the parts that belong together (`data_directory.py` makes and compares them).

`restored.json` has the interval during which the system that was backed up continued without this copy. The platform
knows the runs of that time and the restored workflows do not: they look for them before they start any, see
docs/decisions/0002-one-paid-run.md.
"""

import os
import re
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import AwareDatetime, BaseModel, ConfigDict, ValidationError

from outlast.deploy.local.errors import NewerDataError, StackError
from outlast.deploy.local.private_files import private_file

VERSION_FILE = "version.json"
RESTORED_FILE = "restored.json"
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:(a|b|rc)(\d+))?")
_FINAL = ("z", 0)


class Belongings(BaseModel):
    """Fingerprints of the parts that belong to one stack; empty where it had none."""

    model_config = ConfigDict(frozen=True)

    keys: dict[str, str] = {}
    """Of the ring of sealing keys, by key id, the sealing key first."""
    sandbox_token: dict[str, str] = {}
    """Of the token, under each key of the ring."""
    namespaces: dict[str, str] = {}
    """Ids of the namespaces in the embedded Temporal database, by name."""
    sandbox: str | None = None
    """Id of the sandbox platform's database."""
    store: str | None = None
    """Folder with the stored outputs that a worker has written its owner into; `own` for the one in the directory."""
    restored: bool = False
    """Whether the directory comes from a backup."""
    policy: bool = False
    """Whether the stack had a policy file."""


class LastVersion(BaseModel):
    """The content of the file."""

    model_config = ConfigDict(frozen=True)

    outlast_version: str
    belongings: Belongings | None = None
    """None where a version has written it that recorded none."""


class VersionFileDamaged(StackError):
    """The file is there and cannot be read."""


def require_not_newer(data_dir: Path) -> None:
    """Raise `NewerDataError` when a newer version has worked on the directory."""
    with suppress(VersionFileDamaged, OSError):
        last, own = read_last_version(data_dir), own_version()
        if last is not None and own is not None and _is_newer(last.outlast_version, own):
            raise NewerDataError(data_dir, last.outlast_version, own)


def read_last_version(data_dir: Path) -> LastVersion | None:
    """The content of the file; None where there is none. Raises `VersionFileDamaged`."""
    try:
        return LastVersion.model_validate_json((data_dir / VERSION_FILE).read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise VersionFileDamaged(f"{data_dir / VERSION_FILE} is empty or damaged.") from error


def write_last_version(data_dir: Path, last: LastVersion) -> None:
    """Replace the file in one step; it is on the disk when this returns."""
    draft = data_dir / f"{VERSION_FILE}.tmp"
    with private_file(draft, "wb") as file:
        file.write(f"{last.model_dump_json()}\n".encode())
        file.flush()
        os.fsync(file.fileno())
    draft.replace(data_dir / VERSION_FILE)


def own_version() -> str | None:
    """The version that is installed; None for one that is not."""
    try:
        return version("outlast")
    except PackageNotFoundError:
        return None


class Restored(BaseModel):
    """Where the state of a data directory comes from."""

    model_config = ConfigDict(frozen=True)

    backed_up_at: AwareDatetime
    resumed_at: AwareDatetime | None = None
    """When the first stack was started on it; None before that."""


def write_restored(folder: Path, restored: Restored) -> None:
    """Replace the file in one step."""
    draft = folder / f"{RESTORED_FILE}.tmp"
    with private_file(draft, "wb") as file:
        file.write(f"{restored.model_dump_json(indent=2)}\n".encode())
    draft.replace(folder / RESTORED_FILE)


def resumed_interval(data_dir: Path) -> str | None:
    """`FROM/UNTIL` in ISO 8601, as `OUTLAST_RESTORED_INTERVAL` takes it; None for a directory that was not restored.

    The first call ends the interval: from then on this stack does the work.
    """
    path = data_dir / RESTORED_FILE
    if not path.is_file():
        return None
    restored = Restored.model_validate_json(path.read_bytes())
    if restored.resumed_at is None:
        restored = restored.model_copy(update={"resumed_at": datetime.now(UTC)})
        write_restored(data_dir, restored)
    until = restored.resumed_at or restored.backed_up_at
    return f"{restored.backed_up_at.isoformat()}/{until.isoformat()}"


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
