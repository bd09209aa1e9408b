"""Files that appear when they are complete."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO


@contextmanager
def whole_file(path: Path) -> Generator[BinaryIO]:
    """A file to write to, which gets its name at the end of the block, and is removed when the block fails."""
    partial = path.with_name(f"{path.name}.part")
    try:
        with partial.open("wb") as file:
            yield file
        partial.replace(path)
    except BaseException:
        partial.unlink(missing_ok=True)
        raise
