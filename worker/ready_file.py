"""The ready file: how a process proves to its parent that it, and no other process, is ready.

Set `OUTLAST_READY_FILE` to a path of the process's own. A worker or an API that is ready writes `Readiness` there as
JSON, and removes the file when it stops. A supervisor reads it with `read_ready_file` and compares the pid with that of
the process it started: another program that answers on the same port proves nothing.
"""

import contextlib
import os
from collections.abc import Generator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError


class Readiness(BaseModel):
    """The announcement of a process that is ready."""

    model_config = ConfigDict(frozen=True)

    pid: int = Field(description="The process that is ready.")
    version: str = Field(description="Its version of Outlast.")
    url: str | None = Field(default=None, description="Its address; absent for a worker.")
    metrics_url: str | None = Field(default=None, description="Address of its metrics; absent if it serves none.")


@contextlib.contextmanager
def ready_file(path: Path | None, *, url: str | None = None, metrics_url: str | None = None) -> Generator[None]:
    """Announce in `path` that this process is ready, for as long as the block runs; without a path do nothing.

    The file appears whole, in one step, and replaces what a process that was killed has left. Raises `OSError` when it
    cannot be written.
    """
    if path is None:
        yield
        return
    readiness = Readiness(pid=os.getpid(), version=_own_version(), url=url, metrics_url=metrics_url)
    _write_whole(path, readiness.model_dump_json(exclude_none=True))
    try:
        yield
    finally:
        _remove_own(path, readiness.pid)


def read_ready_file(path: Path) -> Readiness | None:
    """The announcement of the process; None when there is no such file, or something else is in it."""
    try:
        return Readiness.model_validate_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, ValidationError):
        return None


def _own_version() -> str:
    try:
        return version("outlast")
    except PackageNotFoundError:  # a checkout that was never installed
        return "unknown"


def _write_whole(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


def _remove_own(path: Path, pid: int) -> None:
    """Remove the file, unless a process that replaced this one has written it again."""
    announced = read_ready_file(path)
    if announced is not None and announced.pid == pid:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
