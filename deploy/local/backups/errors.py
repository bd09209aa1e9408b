"""Why a backup cannot be made or used, each with what to do."""

from pathlib import Path

from outlast.deploy.local.errors import StackError


class BackupError(StackError):
    """A backup cannot be made, or not be restored here."""


class BackupDamagedError(BackupError):
    """A file is no whole and unchanged backup."""

    def __init__(self, archive: Path, reason: str) -> None:
        super().__init__(f"{archive} cannot be used: {reason}. Nothing was restored; take another backup.")
