"""One stack per data directory."""

import fcntl
import os
import time
from pathlib import Path
from typing import Self

from outlast.deploy.local.errors import DataDirectoryInUseError
from outlast.deploy.local.private_files import private_data_dir
from outlast.deploy.local.state import read_state


class DataDirectoryLock:
    """Holds a data directory for this process. The kernel lets go of it when the process ends, however it ends."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._descriptor: int | None = None

    def acquire(self) -> Self:
        """Take the lock, or raise `DataDirectoryInUseError` naming the stack that has it."""
        private_data_dir(self._data_dir)
        # Not inherited by children (PEP 446), so none of them can keep the lock after this process.
        descriptor = os.open(self._data_dir / "stack.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _try_lock(descriptor):
            os.close(descriptor)
            raise DataDirectoryInUseError(self._who_has_it())
        self._descriptor = descriptor
        return self

    def release(self) -> None:
        """Let go of the directory; harmless when it is not held."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _who_has_it(self) -> str:
        state = read_state(self._data_dir)
        owner = "another stack"
        if state is not None:
            owner = f"another stack: process {state.pid}, API at {state.addresses.api_url or 'none'}"
            owner += f", Temporal at {state.addresses.temporal_address or 'none'}"
        return (
            f"The data directory {self._data_dir} is in use by {owner}. Use that one, stop it first, or give this "
            "stack a directory of its own (--data-dir or OUTLAST_DATA_DIR)."
        )


def _try_lock(descriptor: int) -> bool:
    """Try for a moment: somebody who only looks whether a stack runs holds the lock for an instant too."""
    for _ in range(5):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return True
    return False
