"""Workspaces, a folder per conversation below a root: activities that read a file or run a command in one, and the
folder itself. `bubblewrap` beside this module runs the commands.
"""

import asyncio
import hashlib
import json
import os
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path, PurePosixPath
from typing import BinaryIO, Literal, Protocol

from pydantic import Field
from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.contracts import Contract, ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.heartbeat import activity_scope
from outlast.activities.safe_open import PathError, PathNotFound, open_file_below, opened_folder

READ_FILE_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)
COMMAND_RETRY_POLICY = RetryPolicy(maximum_attempts=1)
"""A command is never retried: after its worker died, its effects are unknown."""
COMMAND_HEARTBEAT_TIMEOUT = timedelta(seconds=10)
MAX_COMMAND_SECONDS = 600
WORKSPACE = "/workspace"
"""The path of the workspace inside the sandbox."""


class WorkspaceOwner(Contract):
    """The owner of a workspace: a conversation, or the caller for calls outside a conversation."""

    caller_id: str
    session_id: str | None = None


class ReadFileInput(Contract):
    """Input of `read_workspace_file`: lines of a text file; `offset` counts lines from 0."""

    owner: WorkspaceOwner
    path: str
    offset: int = 0
    limit: int = 2_000


class FileLines(Contract):
    """Lines of a file. The last one may be cut off."""

    path: str
    text: str
    offset: int
    lines: int
    next_offset: int | None = Field(default=None, description="The line after these; None at the end of the file.")
    cut_line_bytes: int | None = Field(default=None, description="Whole size of a line that was cut off.")
    size_bytes: int


class CommandInput(Contract):
    """Input of `run_workspace_command`: a shell command, which runs once."""

    owner: WorkspaceOwner
    command: str
    timeout_seconds: float


class CommandOutcome(Contract):
    """The end of a command, with its standard output and standard error interleaved."""

    output: str
    ended: Literal["exited", "timed_out", "memory", "flooded"]
    exit_code: int | None = Field(default=None, description="128 + N when signal N ended it, as in shells.")
    dropped_bytes: int = Field(default=0, description="Bytes left out of the middle of the output.")


class Files(Protocol):
    """Reads files in workspaces (`outlast.activities.workspaces.activities`)."""

    def read(self, request: ReadFileInput) -> FileLines:
        """Lines of a file. Raises `ToolFailure`."""
        ...


class Commands(Protocol):
    """Runs commands in workspaces (`outlast.activities.workspaces.bubblewrap`)."""

    async def run(self, request: CommandInput) -> CommandOutcome:
        """Run to the end. When cancelled, ends all processes of the command first. Raises `ToolFailure`."""
        ...


class WorkspaceActivities:
    """Reads files and runs commands in workspaces, where the operator has enabled it."""

    def __init__(self, files: Files | None, commands: Callable[[], Commands] | None) -> None:
        """None means disabled. `commands` may raise `ToolFailure` when there is no sandbox."""
        self._files = files
        self._commands = commands

    @activity.defn
    async def read_workspace_file(self, request: ReadFileInput) -> FileLines:
        """Lines of a file. Fails with `filesystem` for a file that is missing or cannot be read."""
        async with activity_scope():
            if self._files is None:
                raise _disabled("Read", "OUTLAST_ENABLE_READ")
            return await asyncio.to_thread(self._files.read, request)

    @activity.defn
    async def run_workspace_command(self, request: CommandInput) -> CommandOutcome:
        """Run a command in its sandbox. All its processes have ended when this returns, fails or is cancelled."""
        async with activity_scope():
            if self._commands is None:
                raise _disabled("Bash", "OUTLAST_ENABLE_BASH")
            try:
                return await self._commands().run(request)
            except asyncio.CancelledError:
                if activity.is_worker_shutdown():
                    raise ToolFailure(interrupted("The worker was stopped while the command ran")) from None
                raise


def interrupted(reason: str) -> ErrorEnvelope:
    """Return the error for a command whose progress is unknown."""
    return ErrorEnvelope.permanent(
        ErrorCategory.PLATFORM,
        "",
        f"{reason}: the command may or may not have run, in whole or in part. It was not run again.",
        hint="Check what it has changed in the workspace before you run it again.",
    )


def _disabled(tool: str, setting: str) -> ToolFailure:
    return ToolFailure.of(
        ErrorCategory.PERMISSION,
        f"{tool} is not enabled on this worker.",
        f"The operator enables it with OUTLAST_WORKSPACE_DIR and {setting}, the same for worker and API.",
    )


MAX_READ_BYTES = 1024 * 1024
"""Limit of one answer."""
MAX_SCANNED_BYTES = 256 * 1024 * 1024
"""The number of bytes scanned for the requested lines: a limit on time and disk reads, not on memory."""
_CHUNK_BYTES = 65_536


class Workspaces:
    """The folders below `root`. With `uid`, they belong to this user, as which commands run."""

    def __init__(self, root: Path, *, uid: int | None = None) -> None:
        """`root` is created when it does not exist; it has to be the same folder for every worker."""
        self._root = root.absolute()
        self._uid = uid

    def path(self, owner: WorkspaceOwner) -> Path:
        """Return the folder of `owner`, created when it does not exist. Its name does not reveal the owner."""
        self._make_root()
        folder = self._root / folder_name(owner)
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        with opened_folder(folder) as descriptor:
            if self._uid is not None and os.fstat(descriptor).st_uid != self._uid:
                os.fchown(descriptor, self._uid, self._uid)
        return folder

    def _make_root(self) -> None:
        """Create the root. Folders that are created may be passed through by the user who runs commands, not listed."""
        missing = [folder for folder in (self._root, *self._root.parents) if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o700 if self._uid is None else 0o711)  # the process's umask may leave nothing of a mode

    @contextmanager
    def opened(self, owner: WorkspaceOwner) -> Generator[int]:
        """Provide a descriptor of the folder of `owner`."""
        with opened_folder(self.path(owner)) as descriptor:
            yield descriptor


def folder_name(owner: WorkspaceOwner) -> str:
    """Return a digest of caller and conversation, so that two owners never share a folder."""
    return hashlib.sha256(json.dumps([owner.caller_id, owner.session_id]).encode()).hexdigest()[:32]


class WorkspaceFiles:
    """Reads text files in workspaces."""

    def __init__(self, workspaces: Workspaces) -> None:
        self._workspaces = workspaces

    def read(self, request: ReadFileInput) -> FileLines:
        """Lines of a file, at most `MAX_READ_BYTES`. Raises `ToolFailure`."""
        path = _relative_to_workspace(request.path)
        try:
            with (
                self._workspaces.opened(request.owner) as folder,
                os.fdopen(open_file_below(folder, path), "rb") as file,
            ):
                return _read_lines(file, request)
        except PathNotFound as error:
            raise _failed(str(error), ErrorCategory.FILESYSTEM, "Paths are relative to the workspace.") from None
        except PathError as error:
            raise _failed(str(error), ErrorCategory.FILESYSTEM, "Only files of the workspace can be read.") from None


def _relative_to_workspace(path: str) -> str:
    """`path` relative to the workspace: `a` for `/workspace/a`, its path inside the sandbox."""
    shown = PurePosixPath(path)
    if shown.is_absolute() and shown.is_relative_to(WORKSPACE) and "\0" not in path:
        return str(shown.relative_to(WORKSPACE))
    return path


def _read_lines(file: BinaryIO, request: ReadFileInput) -> FileLines:
    size = os.fstat(file.fileno()).st_size
    if b"\0" in file.read(_CHUNK_BYTES):
        message = f"{request.path!r} is not text: it has NUL bytes."
        raise _failed(message, ErrorCategory.FILESYSTEM, "Only text can be read.")
    file.seek(0)
    _skip(file, request)
    shown: list[bytes] = []
    left, cut = MAX_READ_BYTES, None
    while len(shown) < request.limit:
        line = file.readline(left + 1)
        if len(line) > left:
            if not shown:
                shown, cut = [line[:left]], _rest_of_line(file, len(line), request)
            else:
                file.seek(-len(line), os.SEEK_CUR)
            break
        if not line:
            break
        shown.append(line)
        left -= len(line)
    following = request.offset + len(shown)
    return FileLines(
        path=request.path,
        text=b"".join(shown).decode(errors="replace"),
        offset=request.offset,
        lines=len(shown),
        next_offset=following if file.read(1) else None,
        cut_line_bytes=cut,
        size_bytes=size,
    )


def _skip(file: BinaryIO, request: ReadFileInput) -> None:
    """Seek to the line `request.offset`, in pieces, since a line can be as long as the file."""
    lines = 0
    while lines < request.offset and (piece := file.readline(_CHUNK_BYTES)):
        lines += piece.endswith(b"\n")
        _check_scanned(file, request)


def _rest_of_line(file: BinaryIO, seen: int, request: ReadFileInput) -> int:
    """Seek to the end of a line after its first `seen` bytes. Returns the size of the line."""
    file.seek(-1, os.SEEK_CUR)
    seen -= 1
    while piece := file.readline(_CHUNK_BYTES):
        seen += len(piece)
        _check_scanned(file, request)
        if piece.endswith(b"\n"):
            break
    return seen


def _check_scanned(file: BinaryIO, request: ReadFileInput) -> None:
    if file.tell() > MAX_SCANNED_BYTES:
        message = f"{request.path!r} is read up to {MAX_SCANNED_BYTES} bytes; the requested lines come later."
        raise _failed(message, ErrorCategory.VALIDATION, "Split the file, or ask for earlier lines.")


def _failed(message: str, category: ErrorCategory, hint: str) -> ToolFailure:
    return ToolFailure.of(category, message, hint)
