"""Activities on workspaces: reading a file, running a command. One folder per conversation, and no way out of it.

Signatures and contracts; the parts are `activities.workspaces.files` and `outlast.activities.workspaces.bubblewrap`.
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
"""Nobody knows what a command has done before its worker died: it is never run again by itself."""
COMMAND_HEARTBEAT_TIMEOUT = timedelta(seconds=10)
MAX_COMMAND_SECONDS = 600
WORKSPACE = "/workspace"
"""Where a command sees its workspace."""


class WorkspaceOwner(Contract):
    """Whose workspace: the conversation's, or the caller's own for calls outside any conversation."""

    caller_id: str
    session_id: str | None = None


class ReadFileInput(Contract):
    """Order for lines of a text file; `offset` counts lines from 0."""

    owner: WorkspaceOwner
    path: str
    offset: int = 0
    limit: int = 2_000


class FileLines(Contract):
    """Lines of a file as they are, the last one possibly cut: then `next_offset` is its own number."""

    path: str
    text: str
    offset: int
    lines: int
    next_offset: int | None = Field(default=None, description="Where to go on; None at the file's end.")
    cut_line_bytes: int | None = Field(default=None, description="Size of a line too long to be shown whole.")
    size_bytes: int


class CommandInput(Contract):
    """Order to run a shell command once."""

    owner: WorkspaceOwner
    command: str
    timeout_seconds: float


class CommandOutcome(Contract):
    """How a command ended and what it wrote, standard output and standard error in one."""

    output: str
    ended: Literal["exited", "timed_out", "memory", "flooded"]
    exit_code: int | None = Field(default=None, description="128 + N when signal N ended it, as shells say it.")
    dropped_bytes: int = Field(default=0, description="Bytes left out of the middle of the output.")


class Files(Protocol):
    """Reading in workspaces (`outlast.activities.workspaces.files`)."""

    def read(self, request: ReadFileInput) -> FileLines:
        """Lines of a file. Raises `ToolFailure`."""
        ...


class Commands(Protocol):
    """Running commands in workspaces (`outlast.activities.workspaces.bubblewrap`)."""

    async def run(self, request: CommandInput) -> CommandOutcome:
        """Run to the end. Cancelled, it returns when nothing of the command is left. Raises `ToolFailure`."""
        ...


class WorkspaceActivities:
    """Activities in workspaces, each turned on by the operator."""

    def __init__(self, files: Files | None, commands: Callable[[], Commands] | None) -> None:
        """None is what the operator has not turned on; `commands` may raise `ToolFailure` where there is no sandbox."""
        self._files = files
        self._commands = commands

    @activity.defn
    async def read_workspace_file(self, request: ReadFileInput) -> FileLines:
        """Lines of a file. Fails with `not_found`, or `filesystem` for what may not be read."""
        async with activity_scope():
            if self._files is None:
                raise _turned_off("Read", "OUTLAST_ENABLE_READ")
            return await asyncio.to_thread(self._files.read, request)

    @activity.defn
    async def run_workspace_command(self, request: CommandInput) -> CommandOutcome:
        """Run a command in its sandbox. Nothing of it is left when this returns, fails or is cancelled."""
        async with activity_scope():
            if self._commands is None:
                raise _turned_off("Bash", "OUTLAST_ENABLE_BASH")
            try:
                return await self._commands().run(request)
            except asyncio.CancelledError:
                if activity.is_worker_shutdown():
                    raise ToolFailure(interrupted("The worker was stopped while the command ran")) from None
                raise


def interrupted(reason: str) -> ErrorEnvelope:
    """The envelope for a command of which nobody knows how far it came."""
    return ErrorEnvelope(
        tool="",
        message=f"{reason}: it may or may not have run, in whole or in part. It was not run again.",
        category=ErrorCategory.PLATFORM,
        retryable=False,
        hint="Look at what it has changed in the workspace before you run it again.",
    )


def _turned_off(tool: str, setting: str) -> ToolFailure:
    return ToolFailure(
        ErrorEnvelope(
            tool=tool,
            message=f"{tool} is not turned on on this worker.",
            category=ErrorCategory.PERMISSION,
            retryable=False,
            hint=f"The operator turns it on with OUTLAST_WORKSPACE_DIR and {setting}, the same for worker and API.",
        )
    )
