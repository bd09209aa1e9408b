"""The log of a run: the process writes to a raw file, and the sandbox copies its lines, with timestamps, to the log.

The process writes to the file directly, so it neither blocks nor fails when the sandbox dies. Every line of the log is
a timestamp (25 bytes) and the raw line, so after a restart the size of the log says how much of the raw file has been
copied.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from outlast.deploy.local.sandbox.times_and_ids import iso, now

_CHUNK_BYTES = 64 * 1024
_POLL_SECONDS = 0.1


class RunLog:
    """The two files of one run's log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.raw_path = folder / "raw.log"
        self.path = folder / "log.txt"
        folder.mkdir(parents=True, exist_ok=True)
        self._taken_over = self._position()

    def say(self, line: str) -> None:
        """Adds a line of the platform's own, such as `ACTOR: ...`."""
        with self.raw_path.open("ab") as raw:
            raw.write(f"ACTOR: {line}\n".encode())
        self.take_over()

    def take_over(self, *, everything: bool = False) -> None:
        """Copies new complete lines of the raw file to the log; with `everything`, also an incomplete last line."""
        if not self.raw_path.exists():
            return
        with self.raw_path.open("rb") as raw:
            raw.seek(self._taken_over)
            data = raw.read()
        complete = data if everything else data[: data.rfind(b"\n") + 1]
        if not complete:
            return
        stamp = f"{iso(now())} ".encode()
        lines = complete.removesuffix(b"\n").split(b"\n")
        with self.path.open("ab") as log:
            log.write(b"".join(stamp + line + b"\n" for line in lines))
        self._taken_over += len(complete)

    def _position(self) -> int:
        if not self.path.exists():
            return 0
        with self.path.open("rb") as log:
            return sum(len(line) - 25 for line in log)


async def read_log(path: Path, is_open: Callable[[], bool], *, follow: bool) -> AsyncIterator[bytes]:
    """The log from its beginning; with `follow`, until the run has ended."""
    position = 0
    while True:
        # Checked before reading, so that everything written before the end is read.
        goes_on = follow and is_open()
        while chunk := _read_chunk(path, position):
            position += len(chunk)
            yield chunk
        if not goes_on:
            return
        await asyncio.sleep(_POLL_SECONDS)


def _read_chunk(path: Path, position: int) -> bytes:
    if not path.exists():
        return b""
    with path.open("rb") as log:
        log.seek(position)
        return log.read(_CHUNK_BYTES)
