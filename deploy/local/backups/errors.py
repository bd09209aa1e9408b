"""Why a backup cannot be made or used, each with what to do."""

from pathlib import Path

from outlast.deploy.local.errors import StackError


class BackupError(StackError):
    """A backup cannot be made, or not be restored here."""


class NewerDataError(StackError):
    """A newer version has worked on the data directory; what it wrote may mean nothing to this one."""

    def __init__(self, data_dir: Path, last: str, own: str) -> None:
        super().__init__(
            f"Outlast {last} has worked on {data_dir}; this is {own}, which is older and may not understand its data. "
            f"Install {last} or newer, restore a backup from before the upgrade into another directory, or give "
            "this stack a directory of its own (--data-dir or OUTLAST_DATA_DIR)."
        )


class BackupDamagedError(BackupError):
    """A file is no whole and unchanged backup."""

    def __init__(self, archive: Path, reason: str) -> None:
        super().__init__(f"{archive} cannot be used: {reason}. Nothing was restored; take another backup.")
