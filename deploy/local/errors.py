"""Errors of a stack, each with a message that says what to do."""

import signal
from collections.abc import Sequence
from pathlib import Path


class StackError(Exception):
    """A stack could not be started or kept running; the message is meant for the person who started it."""


class PortTakenError(StackError):
    """A port that was asked for by name is in use."""


class DataDirectoryInUseError(StackError):
    """Another stack works on this data directory."""


class IncompleteDataError(StackError):
    """Parts of the data directory are missing, damaged, or another stack's. Nothing was started or changed."""

    def __init__(self, data_dir: Path, lines: Sequence[str], *, is_outside: bool = False) -> None:
        """`lines` names each part; with `is_outside`, parts that `--begin-anew` cannot move aside."""
        named = "\n".join(f"- {line}" for line in lines)
        way_out = (
            "They are not in the data directory: `--begin-anew` leaves them alone. Name others, or repair them."
            if is_outside
            else "Put back what is missing, or restore a backup into another directory (`outlast restore`). Or start "
            f"with `--begin-anew`, once: it moves everything old into a folder in {data_dir} and deletes nothing."
        )
        super().__init__(f"{data_dir} is not whole, so nothing was started or changed:\n{named}\n{way_out}")


class NotReadyError(StackError):
    """A process did not become ready in time, or ended before it did. `component` names it."""

    def __init__(self, message: str, component: str = "stack") -> None:
        super().__init__(message)
        self.component = component


class SupervisionError(StackError):
    """A process can no longer be watched: a defect of the stack, which then stops."""


class StackInterruptedError(StackError):
    """A signal ended the stack while it was being started, or while the program inside it was not in `Stack.wait`."""

    def __init__(self, number: signal.Signals) -> None:
        super().__init__(f"Interrupted by {number.name}.")
        self.number = number


class ToolModuleError(StackError):
    """A module with the user's tools cannot be used. The message is one line: which module, where in it, and why."""


class EmbeddedMissingError(StackError):
    """The packages of `outlast[embedded]` are not installed, and the stack has to bring a server of its own."""


class MissingServerError(StackError):
    """The Temporal server's executable is not where its wheel should have put it."""


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
