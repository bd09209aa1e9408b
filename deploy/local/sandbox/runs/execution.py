"""Executions: the process (or, for benchmarks, the coroutine) behind a run.

A process runs in its own session under a small shell that writes the exit code to a file. It therefore survives a crash
of the sandbox, which finds it again by process ID and start time, or reads from the file how it ended meanwhile.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Protocol

# The trap keeps the shell alive when the Actor gets SIGTERM, so that the exit code is still written.
_SHELL = 'trap : TERM; "$@"; code=$?; echo $code > "$0.part" && mv "$0.part" "$0"'


class Execution(Protocol):
    """A running Actor: a process or a coroutine."""

    async def wait(self) -> int | None:
        """Waits for the end; returns the exit code, or None when it was killed from outside."""
        ...

    def stop(self) -> None:
        """Asks the execution to end (SIGTERM for a process)."""
        ...

    def kill(self) -> None:
        """Ends the execution and everything that it started."""
        ...


class ProcessExecution:
    """A process group: started by this sandbox, or adopted after a restart."""

    def __init__(self, process_id: int, exit_file: Path, child: subprocess.Popen[bytes] | None = None) -> None:
        self.process_id = process_id
        self._exit_file = exit_file
        self._child = child

    async def wait(self) -> int | None:
        """See `Execution`."""
        try:
            pidfd = os.pidfd_open(self.process_id)
        except ProcessLookupError:
            return self._exit_code()
        loop = asyncio.get_running_loop()
        ended = asyncio.Event()
        loop.add_reader(pidfd, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(pidfd)
            os.close(pidfd)
        if self._child is not None:
            self._child.wait()
        # Background processes of the Actor end with it, as in a container.
        self._signal(signal.SIGKILL)
        return self._exit_code()

    def stop(self) -> None:
        """See `Execution`."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """See `Execution`."""
        self._signal(signal.SIGKILL)

    def _exit_code(self) -> int | None:
        return read_exit_code(self._exit_file)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process_id, number)


class CoroutineExecution:
    """A coroutine in the sandbox's process that behaves like an Actor."""

    def __init__(self, work: Coroutine[object, object, int]) -> None:
        self._task = asyncio.ensure_future(work)

    async def wait(self) -> int | None:
        """See `Execution`."""
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.result()

    def stop(self) -> None:
        """See `Execution`."""
        self._task.cancel()

    def kill(self) -> None:
        """See `Execution`."""
        self._task.cancel()


def read_exit_code(exit_file: Path) -> int | None:
    """The exit code that the shell wrote; None when it wrote none."""
    try:
        return int(exit_file.read_text())
    except (FileNotFoundError, ValueError):
        return None


def start_process(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: Path, exit_file: Path
) -> ProcessExecution:
    """Starts a command in its own session, with its output in the log. Raises OSError."""
    exit_file.unlink(missing_ok=True)
    with log.open("ab") as output:
        child = subprocess.Popen(
            ["/bin/sh", "-c", _SHELL, str(exit_file), *command],
            cwd=folder,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    return ProcessExecution(child.pid, exit_file, child)


def process_started_at(process_id: int) -> float | None:
    """The start time of a running process, which distinguishes it from an earlier process with the same ID."""
    import psutil  # noqa: PLC0415 (not before a run is looked at: the sandbox starts sooner)

    try:
        process = psutil.Process(process_id)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def memory_by_session(sessions: set[int]) -> dict[int, int]:
    """Resident bytes of all processes of each session."""
    import psutil  # noqa: PLC0415

    totals = dict.fromkeys(sessions, 0)
    for process_id in psutil.pids():
        try:
            session = os.getsid(process_id)
            if session in totals:
                totals[session] += psutil.Process(process_id).memory_info().rss
        except (ProcessLookupError, PermissionError, psutil.Error):
            continue
    return totals
