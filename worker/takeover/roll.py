"""The roll of the workers that share a data directory: who lives, and who died without a word.

Each worker has a file there, with its identity in it, which it keeps locked. The kernel gives the lock up when the
process ends, however it ends, and only then: a worker that is suspended or busy keeps it. So a worker that
gets the lock of another's file knows that the other one is dead.
"""

import fcntl
import os
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

_SUFFIX = ".worker"


class Roll:
    """The workers that share a folder."""

    def __init__(self, folder: Path, identity: str) -> None:
        """Of the worker `identity`, as Temporal knows it."""
        self._folder = folder
        self._identity = identity
        self._own = folder / f"{os.getpid()}-{os.urandom(4).hex()}{_SUFFIX}"

    @contextmanager
    def entered(self) -> Generator[bool]:
        """Be on the roll while the block runs; False when the folder cannot be written."""
        try:
            file = self._enter()
        except OSError:
            yield False
            return
        with file:
            try:
                yield True
            finally:
                self._own.unlink(missing_ok=True)

    def _enter(self) -> TextIO:
        self._folder.mkdir(parents=True, exist_ok=True)
        draft = self._own.with_suffix(".draft")
        file = draft.open("w", encoding="utf-8")
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        file.write(self._identity)
        file.flush()
        # It appears with its lock: nobody takes it for the entry of a dead worker.
        draft.rename(self._own)
        return file

    def dead(self) -> Sequence["DeadWorker"]:
        """The workers that have died since their entry. Each is given to one taker at a time, until it is let go."""
        found = (_dead(path) for path in sorted(self._folder.glob(f"*{_SUFFIX}")) if path != self._own)
        return [dead for dead in found if dead is not None]


def _dead(entry: Path) -> "DeadWorker | None":
    """The worker of the entry; None while it lives, somebody takes over from it, or its entry cannot be read."""
    try:
        file = entry.open("r+", encoding="utf-8", errors="replace")
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return DeadWorker(file, entry)
    except OSError:
        file.close()
        return None


class DeadWorker:
    """A worker that has died. Its entry stays until it is forgotten: the worker that takes over may die, too."""

    def __init__(self, file: TextIO, entry: Path) -> None:
        """The worker of `entry`, whose lock `file` holds."""
        self.identity = file.read()
        """How Temporal knew it."""
        self._file = file
        self._entry = entry

    def let_go(self) -> None:
        """Leave it to the next worker that looks."""
        self._file.close()

    def forget(self) -> None:
        """Take it off the roll."""
        self._entry.unlink(missing_ok=True)
        self._file.close()
