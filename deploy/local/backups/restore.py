"""Puts a backup into an empty data directory."""

import shutil
from pathlib import Path

from outlast.deploy.local.backups.archive import BackupManifest, unpack
from outlast.deploy.local.backups.errors import BackupError
from outlast.deploy.local.backups.last_version import LastVersion, write_last_version
from outlast.deploy.local.backups.restored import Restored, write_restored
from outlast.deploy.local.belongings import OUTPUTS, OWN_STORE
from outlast.deploy.local.private_files import private_folder

_UNFINISHED = "restoring"


def restore(archive: Path, data_dir: Path) -> BackupManifest:
    """Restore a backup into `data_dir`, which must be empty or missing.

    Every file is checked before any of them is in its place. Raises `BackupError`, and leaves an empty directory then.
    """
    if data_dir.exists() and (not data_dir.is_dir() or any(data_dir.iterdir())):
        raise BackupError(
            f"{data_dir} is not empty. Restore into a new directory (--data-dir), so that nothing is overwritten."
        )
    staging = private_folder(private_folder(data_dir) / _UNFINISHED)
    try:
        manifest = unpack(archive, staging)
        write_restored(staging, Restored(backed_up_at=manifest.backed_up_at))
        write_last_version(staging, _version_of(manifest))
    except BaseException:
        shutil.rmtree(staging)
        raise
    for entry in staging.iterdir():
        entry.rename(data_dir / entry.name)
    staging.rmdir()
    return manifest


def _version_of(manifest: BackupManifest) -> LastVersion:
    """What the backed up directory has recorded, as it is for the restored one: outputs on disk are in it."""
    belongings = manifest.belongings
    if belongings is not None:
        has_outputs = any(name.startswith(f"{OUTPUTS}/owner/") for name in manifest.files)
        belongings = belongings.model_copy(update={"store": OWN_STORE if has_outputs else None, "restored": True})
    return LastVersion(outlast_version=manifest.outlast_version, belongings=belongings)


def require_finished_restore(data_dir: Path) -> None:
    """Raise `BackupError` when a restore was killed while it put files into their places."""
    if (data_dir / _UNFINISHED).exists():
        raise BackupError(f"A restore into {data_dir} was interrupted. Remove the directory and restore again.")
