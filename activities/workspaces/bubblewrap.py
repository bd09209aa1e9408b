"""Commands in a bubblewrap sandbox (bwrap(1)): own namespaces for everything, no network, a read-only system.

A command sees the programs of the system and its workspace; no other file of the machine, no process of it, none of
its environment. A worker that runs as root gives the command to a user without rights. Nothing of a command outlives
its end, its time or its worker: all its processes are in one PID namespace, which dies with its first.
"""

import asyncio
import os
import shutil
import signal
import subprocess
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import psutil

from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.workspaces.activities import WORKSPACE, CommandInput, CommandOutcome, WorkspaceOwner
from outlast.activities.workspaces.bounded_output import BoundedOutput
from outlast.activities.workspaces.files import Workspaces

SANDBOX_UID = 65_534
"""Whom a root worker lets commands be: nobody."""
_INSIDE_UID = "1000"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_CONFIGURATION = ("/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime")
_ENVIRONMENT = {
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "HOME": WORKSPACE,
    "PWD": WORKSPACE,
    "TMPDIR": "/tmp",  # noqa: S108  # the sandbox's own
    "LANG": "C.UTF-8",
    "TERM": "dumb",
}
_PROBE_SECONDS = 20
_PROBE_OWNER = "(probe)"
"""No caller is called like that."""
_WATCH_SECONDS = 0.1
_READ_BYTES = 65_536

Ended = Literal["exited", "timed_out", "memory", "flooded"]


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What one command may use. Memory is counted over all its processes, and bounds each of them as well."""

    memory_bytes: int = 1024 * 1024 * 1024
    processes: int = 128
    file_bytes: int = 1024 * 1024 * 1024
    temporary_bytes: int = 256 * 1024 * 1024
    output_bytes: int = 64 * 1024 * 1024
    commands: int = 4


class SandboxUnavailable(Exception):
    """Commands cannot be confined here; the message says why. They are refused then."""


class Sandbox:
    """Runs commands, each in a sandbox of its own, at most `limits.commands` at once."""

    def __init__(self, workspaces: Workspaces, limits: SandboxLimits, *, program: str = "bwrap") -> None:
        """Run `program`. Use `probe` before anything else."""
        self._workspaces = workspaces
        self._limits = limits
        self._program = program
        self._slots = asyncio.Semaphore(limits.commands)

    def probe(self) -> None:
        """Run a command, as those that come later. Raises `SandboxUnavailable`."""
        program = shutil.which(self._program)
        if program is None:
            raise SandboxUnavailable(f"{self._program} is not installed (Debian package bubblewrap).")
        uid = sandbox_uid()
        try:
            folder = self._workspaces.path(WorkspaceOwner(caller_id=_PROBE_OWNER))
            tried = subprocess.run(
                [program, *sandbox_arguments(folder, self._limits), "true"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=_PROBE_SECONDS,
                check=False,
                env={},
                user=uid,
                group=uid,
                extra_groups=None if uid is None else (),
            )
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            raise SandboxUnavailable(f"{self._program} cannot be run ({type(error).__name__}).") from error
        if tried.returncode != 0:
            said = tried.stderr.decode(errors="replace").strip()[-300:]
            raise SandboxUnavailable(f"{self._program} does not work here: {said or tried.returncode}")

    async def run(self, request: CommandInput) -> CommandOutcome:
        """Run the command to its end, its time or one of its limits; cancelled, kill it first."""
        async with self._slots:
            folder, uid = await asyncio.to_thread(self._workspaces.path, request.owner), sandbox_uid()
            # Started on the loop's own thread: the kernel ends the sandbox with the thread that started it.
            process = await asyncio.create_subprocess_exec(
                shutil.which(self._program) or self._program,
                *sandbox_arguments(folder, self._limits),
                request.command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                start_new_session=True,
                env={},
                user=uid,
                group=uid,
                extra_groups=None if uid is None else (),
            )
            return await self._to_its_end(process, request)

    async def _to_its_end(self, process: asyncio.subprocess.Process, request: CommandInput) -> CommandOutcome:
        output = BoundedOutput()
        finished = asyncio.create_task(self._drain(process, output))
        watched = asyncio.create_task(self._watch(process.pid, output))
        ended: Ended = "exited"
        try:
            done, _ = await asyncio.wait(
                {finished, watched}, timeout=request.timeout_seconds, return_when=asyncio.FIRST_COMPLETED
            )
            if finished not in done:
                ended = watched.result() if watched in done else "timed_out"
        finally:
            watched.cancel()
            _kill(process)
            # The pipe ends when the last process that holds it is dead; only then is nothing left.
            await asyncio.shield(finished)
        code = process.returncode
        exit_code = code if code is None or code >= 0 else 128 - code
        return CommandOutcome(
            output=output.text,
            ended=ended,
            exit_code=exit_code if ended == "exited" else None,
            dropped_bytes=output.dropped,
        )

    async def _drain(self, process: asyncio.subprocess.Process, output: BoundedOutput) -> None:
        assert process.stdout is not None
        while piece := await process.stdout.read(_READ_BYTES):
            output.add(piece)
        await process.wait()

    async def _watch(self, pid: int, output: BoundedOutput) -> Ended:
        """Return when the command has used more than it may."""
        while True:
            if output.total > self._limits.output_bytes:
                return "flooded"
            if await asyncio.to_thread(memory_of, pid) > self._limits.memory_bytes:
                return "memory"
            await asyncio.sleep(_WATCH_SECONDS)


def sandbox_arguments(folder: Path, limits: SandboxLimits) -> list[str]:
    """The arguments of bwrap, up to the command, which comes behind them as one argument."""
    isolation = (
        "--unshare-all --unshare-user --disable-userns --die-with-parent --new-session --clearenv --cap-drop ALL"
        f" --uid {_INSIDE_UID} --gid {_INSIDE_UID} --hostname sandbox"
    )
    arguments = isolation.split()
    for name, value in _ENVIRONMENT.items():
        arguments += ["--setenv", name, value]
    for path in map(Path, _SYSTEM):
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), str(path)]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), str(path)]
    for path in _CONFIGURATION:
        arguments += ["--ro-bind-try", path, path]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    for path in ("/tmp", "/dev/shm"):  # noqa: S108  # the sandbox's own
        arguments += ["--size", str(limits.temporary_bytes), "--tmpfs", path]
    arguments += ["--remount-ro", "/dev"]
    arguments += ["--bind", str(folder), WORKSPACE, "--chdir", WORKSPACE, "--remount-ro", "/", "--"]
    return [*arguments, *_with_limits(limits)]


def _with_limits(limits: SandboxLimits) -> list[str]:
    """A shell that binds itself to the limits, for good, and becomes the one that runs the command.

    Set inside the sandbox: the kernel counts processes per user namespace, so that sandboxes do not share a count.
    """
    kilobytes = limits.memory_bytes // 1024
    bounds = f"ulimit -c 0 -d {kilobytes} -u {limits.processes} -f {limits.file_bytes // 1024} -n 1024"
    return ["/bin/bash", "-c", f'{bounds} && exec /bin/bash -c "$1"', "sandbox"]


def refused(error: SandboxUnavailable) -> ToolFailure:
    """What a call is told where commands cannot be confined."""
    return ToolFailure(
        ErrorEnvelope(
            tool="",
            message=f"Commands are refused on this worker: they cannot be confined. {error}",
            category=ErrorCategory.PERMISSION,
            retryable=False,
            hint="The operator has to let the worker use bubblewrap with user namespaces.",
        )
    )


def sandbox_uid() -> int | None:
    """Whom commands are given to, when this process is root."""
    return SANDBOX_UID if os.geteuid() == 0 else None


def _kill(process: asyncio.subprocess.Process) -> None:
    """End the sandbox' first process and its group; the PID namespace with all the others goes with it."""
    if process.returncode is None:  # else the number may be another's by now
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def memory_of(pid: int) -> int:
    """Resident bytes of `pid` and its descendants; of a process that has gone meanwhile, none."""
    try:
        first = psutil.Process(pid)
        processes = [first, *first.children(recursive=True)]
    except psutil.Error:
        return 0
    return sum(map(_resident, processes))


def _resident(process: psutil.Process) -> int:
    try:
        return process.memory_info().rss
    except psutil.Error:
        return 0
