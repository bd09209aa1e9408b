"""A child process that is kept running: started, watched, restarted, stopped."""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from outlast.deploy.local.errors import ChildGaveUpError, NotReadyError
from outlast.deploy.local.events import OnEvent, StackEvent, StackEventKind
from outlast.deploy.local.processes import logs
from outlast.deploy.local.processes.orphans import die_with_parent
from outlast.deploy.local.processes.readiness import Probe
from outlast.deploy.local.processes.restarts import RestartBudget, RestartPolicy

_PROBE_INTERVAL_SECONDS = 0.05


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """What one child process is: its command, its environment, its log, and how to see that it is ready."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log_path: Path
    is_ready: Probe
    ready_timeout_seconds: float = 60.0
    stop_grace_seconds: float = 5.0
    """Time between SIGTERM and SIGKILL."""


@dataclass(frozen=True, slots=True)
class Observers:
    """Whom a supervised process tells what."""

    on_event: OnEvent
    on_spawn: Callable[[str, int], None]
    """Called with the component's name and the new process id."""
    on_give_up: Callable[[ChildGaveUpError], None]


class SupervisedProcess:
    """Keeps one child running until `stop`, or until its restart policy says that this is hopeless."""

    def __init__(self, spec: ChildSpec, observers: Observers, policy: RestartPolicy) -> None:
        self.spec = spec
        self._observers = observers
        self._budget = RestartBudget(policy)
        self._process: asyncio.subprocess.Process | None = None
        self._was_ready = False
        self._supervision: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """The process id of the running child, None when there is none."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    async def start(self) -> None:
        """Start the child and return when it is ready; from then on it is kept running.

        Raises `NotReadyError`, with the end of the child's log, when it ends or its time is up before that.
        """
        logs.rotate(self.spec.log_path)
        self._tell(StackEventKind.STARTING, f"starting {self.spec.name}")
        process = await self._spawn()
        await self._wait_ready(process)
        self._tell(StackEventKind.READY, f"{self.spec.name} is ready")
        self._supervision = asyncio.create_task(self._supervise(process), name=f"supervise-{self.spec.name}")
        self._supervision.add_done_callback(self._on_supervision_end)

    async def stop(self) -> None:
        """End the child: SIGTERM, then SIGKILL when its grace is over. Returns when it is gone."""
        if self._supervision is not None:
            self._supervision.cancel()
            await asyncio.wait([self._supervision])
        if self.pid is not None:
            self._tell(StackEventKind.STOPPING, f"stopping {self.spec.name}")
            await self._terminate()
            self._tell(StackEventKind.STOPPED, f"{self.spec.name} stopped")
        self._process = None

    def kill(self) -> None:
        """End the child and what it started, at once."""
        if self._process is not None:
            _signal_group(self._process.pid, signal.SIGKILL)

    async def _spawn(self) -> asyncio.subprocess.Process:
        with self.spec.log_path.open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                *self.spec.command,
                env=dict(self.spec.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in the terminal reaches the stack only, which then stops its children in order.
                start_new_session=True,
                preexec_fn=die_with_parent(),
            )
        self._process = process
        self._was_ready = False
        self._observers.on_spawn(self.spec.name, process.pid)
        return process

    async def _wait_ready(self, process: asyncio.subprocess.Process) -> None:
        deadline = time.monotonic() + self.spec.ready_timeout_seconds
        while time.monotonic() < deadline:
            answered = await self.spec.is_ready()
            if process.returncode is not None:  # whatever answered, it was not this process
                ending = describe_exit(process.returncode)
                raise NotReadyError(self._explain(f"ended with {ending} before it was ready"))
            if answered:
                self._was_ready = True
                return
            await asyncio.sleep(_PROBE_INTERVAL_SECONDS)
        raise NotReadyError(self._explain(f"was not ready after {self.spec.ready_timeout_seconds:g} seconds"))

    async def _supervise(self, process: asyncio.subprocess.Process) -> None:
        while True:
            code = await process.wait()
            _signal_group(process.pid, signal.SIGKILL)  # what it started must not go on without it
            self._tell(StackEventKind.EXITED, f"{self.spec.name} ended with {describe_exit(code)}")
            delay = self._budget.after_end(time.monotonic(), self._was_ready)
            if delay is None:
                self._give_up()
                return
            self._tell(StackEventKind.RESTARTING, f"restarting {self.spec.name} in {delay:g} s")
            await asyncio.sleep(delay)
            process = await self._restart()

    async def _restart(self) -> asyncio.subprocess.Process:
        process = await self._spawn()
        try:
            await self._wait_ready(process)
        except NotReadyError:
            _signal_group(process.pid, signal.SIGKILL)
        else:
            self._tell(StackEventKind.READY, f"{self.spec.name} is ready again (process {process.pid})")
        return process

    def _on_supervision_end(self, supervision: asyncio.Task[None]) -> None:
        """See to it that a child is never left unwatched in silence, whatever went wrong in watching it."""
        if not supervision.cancelled() and (error := supervision.exception()) is not None:
            self._observers.on_give_up(ChildGaveUpError(f"{self.spec.name} cannot be watched any longer: {error!r}"))

    def _give_up(self) -> None:
        error = ChildGaveUpError(self._explain("keeps ending; it is not started again"))
        self._tell(StackEventKind.GAVE_UP, str(error))
        self._observers.on_give_up(error)

    async def _terminate(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(self.spec.stop_grace_seconds):
                await process.wait()
        except TimeoutError:
            pass
        finally:
            self.kill()
        await process.wait()

    def _explain(self, what: str) -> str:
        end = logs.tail(self.spec.log_path)
        shown = f" The end of its log:\n{end}" if end else " Its log is empty."
        return f"{self.spec.name} {what}. Log: {self.spec.log_path}.{shown}"

    def _tell(self, kind: StackEventKind, message: str) -> None:
        self._observers.on_event(StackEvent(kind, self.spec.name, message))


def describe_exit(code: int) -> str:
    """Say what an exit code means, in the terms of a shell."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _signal_group(leader: int, number: signal.Signals) -> None:
    try:
        os.killpg(leader, number)
    except (ProcessLookupError, PermissionError):
        return
