"""Activities in workspaces: read a file, run a command. A workspace is one conversation's folder. Signatures and
contracts only; `files` and `bubblewrap` in this room implement them.
"""

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Literal, Protocol

from pydantic import Field
from temporalio import activity
from temporalio.common import RetryPolicy

from outlast.activities.contracts import Contract
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.heartbeat import activity_scope

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
    """Reads files in workspaces (`outlast.activities.workspaces.workspace_folders`)."""

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
