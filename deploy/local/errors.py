"""Errors of a stack. Each message names the remedy."""

import signal
from collections.abc import Sequence
from pathlib import Path


class StackError(Exception):
    """Stack that could not be started or kept running. The message is for the user who started it."""


class PortTakenError(StackError):
    """Port that the user chose and that is in use."""


class DataDirectoryInUseError(StackError):
    """Data directory that another stack uses."""


class IncompleteDataError(StackError):
    """Data directory with parts that are missing, damaged, or from another stack. Nothing was started or changed."""

    def __init__(self, data_dir: Path, lines: Sequence[str], *, is_outside: bool = False) -> None:
        """`lines` names each part; with `is_outside`, parts that `--begin-anew` cannot move aside."""
        named = "\n".join(f"- {line}" for line in lines)
        way_out = (
            "They are not in the data directory: `--begin-anew` does not change them. Name others, or repair them."
            if is_outside
            else "Put the missing parts back, or restore a backup into another directory (`outlast restore`). Or start "
            f"once with `--begin-anew`: it moves all old state into a folder in {data_dir} and deletes nothing."
        )
        super().__init__(f"{data_dir} is incomplete, so nothing was started or changed:\n{named}\n{way_out}")


class NotReadyError(StackError):
    """Process (`component`) that did not become ready in time, or ended before it was ready."""

    def __init__(self, message: str, component: str = "stack") -> None:
        super().__init__(message)
        self.component = component


class SupervisionError(StackError):
    """Process that can no longer be supervised: a defect of the stack, which then stops."""


class StackInterruptedError(StackError):
    """Signal that ended the stack during its start, or while the program in its block was not in `Stack.wait`."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"Interrupted by {number.name}.")
        self.number = number


class ToolModuleError(StackError):
    """Module with the user's tools that cannot be used. The message is one line with module, position and reason."""


class EmbeddedMissingError(StackError):
    """Packages of `outlast[embedded]` that are not installed, although the stack has to start a server."""


class MissingServerError(StackError):
    """Executable of the Temporal server that is not where its wheel should have installed it."""


class BackupError(StackError):
    """Backup that cannot be made, or not be restored here."""


class NewerDataError(StackError):
    """Data directory that a newer version has used, so that this version may not understand the data."""

    def __init__(self, data_dir: Path, last: str, own: str) -> None:
        super().__init__(
            f"Outlast {last} has used {data_dir}; this is {own}, which is older and may not understand the data. "
            f"Install {last} or newer, restore a backup from before the upgrade into another directory, or select "
            "another directory for this stack (--data-dir or OUTLAST_DATA_DIR)."
        )


class BackupDamagedError(BackupError):
    """File that is not a complete and unchanged backup."""

    def __init__(self, archive: Path, reason: str) -> None:
        super().__init__(f"{archive} cannot be used: {reason}. Nothing was restored; use another backup.")
