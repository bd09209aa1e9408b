"""Pauses and files with blocking I/O. The asynchronous client has its own module with the same names."""

import time
from collections.abc import Iterator
from pathlib import Path

from outlast.client.whole_files import whole_file


def sleep(seconds: float) -> None:
    """Wait."""
    time.sleep(seconds)


def write_file(path: Path, pieces: Iterator[bytes]) -> int:
    """Write `pieces` to a file, which appears when it is complete. Returns its size in bytes."""
    with whole_file(path) as file:
        return sum(file.write(piece) for piece in pieces)
