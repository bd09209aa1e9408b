"""Child processes: started, supervised, restarted and stopped, with one log file each, and never left behind.

A port that answers does not prove that a process is ready: another program may have taken it. A process is ready only
when its own process id holds its ports, or is in the ready file that it writes.
"""

import asyncio
import contextlib
import os
import signal
import ssl
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from pydantic import BaseModel, ValidationError

from outlast.deploy.local import state
from outlast.deploy.local.errors import NotReadyError, SupervisionError
from outlast.deploy.local.orphans import die_with_parent

Probe = Callable[[], Awaitable[bool]]
"""Checks once whether a process is ready."""
_PROBE_TIMEOUT_SECONDS = 2.0
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""For probes, which use plain HTTP. Without it each would load the machine's certificates, which takes 15 ms of CPU."""
KEPT_LOGS = 5
_PROBE_INTERVAL_SECONDS = 0.05
_SHOWN_LOG_LINES = 5
_ASKED_TO_END = frozenset({signal.SIGKILL, signal.SIGTERM, signal.SIGINT})


@dataclass(frozen=True, slots=True)
class ChildSpec:
    """Child process: its command, environment, log, and readiness."""

    name: str
    command: tuple[str, ...]
    environment: Mapping[str, str]
    log_path: Path
    is_ready: Probe
    own_ports: tuple[int, ...] = ()
    """Ports that the child itself must listen on before it counts as ready."""
    ready_file: Path | None = None
    """File to which the child writes its process id when it is ready; None for a child that writes none."""
    ready_timeout_seconds: float = 60.0
    stop_grace_seconds: float = 5.0
    """Time between SIGTERM and SIGKILL."""
    kept_files: tuple[Path, ...] = ()
    """Files that the child would create again if they were missing. It is not restarted without them."""


@dataclass(frozen=True, slots=True)
class Observers:
    """Receivers of a supervised process's reports."""

    on_event: state.OnEvent
    on_status: Callable[[str, state.ProcessStatus], None]
    """Called with the component's name whenever its status changes."""
    on_failure: Callable[[SupervisionError], None]
    """Called when the process can no longer be supervised."""


@dataclass(frozen=True, slots=True)
class RestartPolicy:
    """Pauses between restarts, in seconds. The number of restarts is not limited.

    At least `first_pause_seconds` pass between becoming ready and the next start. Every end doubles this time, up to
    `max_pause_seconds`, until the process has been ready for `steady_seconds`. A process that was ready for longer than
    the pause restarts at once.
    """

    first_pause_seconds: float = 0.05
    max_pause_seconds: float = 30.0
    steady_seconds: float = 30.0


class SupervisedProcess:
    """Child that is kept running until `stop`: when it has been ready once, it is restarted after each end."""

    def __init__(self, spec: ChildSpec, observers: Observers, policy: RestartPolicy) -> None:
        self.spec = spec
        self._observers = observers
        self._pauses = RestartPauses(policy)
        self._process: asyncio.subprocess.Process | None = None
        self._log_start = 0
        self._kept_files: list[Path] = []
        self._status = state.ProcessStatus(state=state.ProcessState.STARTING)
        self._replace_reason: str | None = None
        self._replace_asked = asyncio.Event()
        self._supervision: asyncio.Task[None] | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the running child, None if it is not running."""
        return self._process.pid if self._process is not None and self._process.returncode is None else None

    @property
    def is_ready(self) -> bool:
        """True if the child is ready: neither starting nor between two starts."""
        return self._status.state is state.ProcessState.READY

    async def start(self) -> None:
        """Start the child and return when it is ready; from then on it is kept running.

        Raises `NotReadyError`, with the end of the child's log, if it ends or does not become ready in time.
        """
        rotate(self.spec.log_path)
        self._report(state.StackEventKind.STARTING, f"starting {self.spec.name}")
        process = await self._spawn()
        await self._wait_ready(process)
        self._kept_files = [path for path in self.spec.kept_files if path.exists()]
        self._report(state.StackEventKind.READY, f"{self.spec.name} is ready")
        self._supervision = asyncio.create_task(self._supervise(process), name=f"supervise-{self.spec.name}")
        self._supervision.add_done_callback(self._on_supervision_end)

    async def stop(self) -> None:
        """End the child: SIGTERM, then SIGKILL after its grace period. Returns when it has ended."""
        if self._supervision is not None:
            self._supervision.cancel()
            await asyncio.wait([self._supervision])
        if self.pid is not None:
            self._report(state.StackEventKind.STOPPING, f"stopping {self.spec.name}")
            await self._terminate()
            self._report(state.StackEventKind.STOPPED, f"{self.spec.name} stopped")
        self._process = None
        self._set_status(state=state.ProcessState.STOPPED, pid=None)

    async def replace(self, reason: str) -> None:
        """End the child in order and let its supervision restart it at once; `reason` is reported.

        This does not count as a restart. A child that waits for its next start is started without further pause.
        """
        self._pauses.forget()
        self._replace_reason = reason
        self._replace_asked.set()
        await self._terminate()

    def kill(self) -> None:
        """End the child and its own children at once."""
        if self._process is not None:
            _signal_group(self._process.pid, signal.SIGKILL)

    async def _spawn(self) -> asyncio.subprocess.Process:
        if self.spec.ready_file is not None:
            state.private_folder(self.spec.ready_file.parent)
            self.spec.ready_file.unlink(missing_ok=True)
        with state.private_file(self.spec.log_path, "ab") as log:
            self._log_start = log.tell()
            process = await asyncio.create_subprocess_exec(
                *self.spec.command,
                env=dict(self.spec.environment),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C in the terminal reaches only the stack, which then stops its children in order.
                start_new_session=True,
                umask=state.UMASK,
                preexec_fn=die_with_parent(),
            )
        self._process = process
        self._set_status(state=state.ProcessState.STARTING, pid=process.pid)
        return process

    async def _wait_ready(self, process: asyncio.subprocess.Process) -> None:
        deadline = time.monotonic() + self.spec.ready_timeout_seconds
        while time.monotonic() < deadline:
            answered = await self._is_ready(process.pid)
            if process.returncode is not None:
                raise NotReadyError(self._describe_end(process.returncode, " before it was ready"), self.spec.name)
            if answered:
                self._set_status(state=state.ProcessState.READY, metrics_url=self._metrics_url())
                return
            await asyncio.sleep(_PROBE_INTERVAL_SECONDS)
        late = f"{self.spec.name} was not ready after {self.spec.ready_timeout_seconds:g} seconds."
        raise NotReadyError(self._with_log(late), self.spec.name)

    def _metrics_url(self) -> str | None:
        written = read_ready_file(self.spec.ready_file) if self.spec.ready_file is not None else None
        return written.metrics_url if written is not None else None

    async def _is_ready(self, pid: int) -> bool:
        """Return whether this process, and no other, is ready."""
        if self.spec.ready_file is not None:
            written = read_ready_file(self.spec.ready_file)
            if written is None or written.pid != pid:
                return False
        if not await self.spec.is_ready():
            return False
        return not self.spec.own_ports or await asyncio.to_thread(holds_ports, pid, self.spec.own_ports)

    async def _supervise(self, process: asyncio.subprocess.Process) -> None:
        ready_since = time.monotonic()
        while True:
            code = await process.wait()
            _signal_group(process.pid, signal.SIGKILL)  # its own children must not continue without it
            await self._before_restart(self._describe_end(code), ready_seconds=time.monotonic() - ready_since)
            process = await self._restart()
            ready_since = time.monotonic()

    async def _restart(self) -> asyncio.subprocess.Process:
        """Restart the child until it is ready."""
        while True:
            self._require_kept_files()
            process = await self._spawn()
            try:
                await self._wait_ready(process)
            except NotReadyError as error:
                _signal_group(process.pid, signal.SIGKILL)
                await process.wait()
                await self._before_restart(str(error), ready_seconds=0)
            else:
                self._report(state.StackEventKind.READY, f"{self.spec.name} is ready again (process {process.pid})")
                return process

    def _require_kept_files(self) -> None:
        """Raise `SupervisionError` if a file with the child's state was removed after its start."""
        for path in self._kept_files:
            if not path.exists():
                raise SupervisionError(
                    f"{path} is missing: {self.spec.name} is not restarted, since it would start without data. "
                    "Put the file back, then start the stack again."
                )

    async def _before_restart(self, ending: str, *, ready_seconds: float) -> None:
        """Report why the child is restarted; wait before the restart if it was not requested."""
        if self._replace_reason is None:
            await self._pause(ending, ready_seconds=ready_seconds)
        if self._replace_reason is not None:
            self._set_status(state=state.ProcessState.RESTARTING, pid=None)
            self._report(state.StackEventKind.RESTARTING, f"restarting {self.spec.name}: {self._replace_reason}")
        self._replace_reason = None
        self._replace_asked.clear()

    async def _pause(self, reason: str, *, ready_seconds: float) -> None:
        """Report why the child ended, and wait before its next start, at most until `replace`."""
        pause = self._pauses.after_end(ready_seconds)
        restarts = self._status.restarts + 1
        self._set_status(state=state.ProcessState.RESTARTING, pid=None, restarts=restarts, last_end=reason)
        self._report(state.StackEventKind.EXITED, reason)
        when = f"in {pause:.3g} s" if pause else "at once"
        self._report(state.StackEventKind.RESTARTING, f"restarting {self.spec.name} {when}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await self._replace_asked.wait()

    def _on_supervision_end(self, supervision: asyncio.Task[None]) -> None:
        """Report that the child is no longer supervised, whatever the error was."""
        if supervision.cancelled() or (error := supervision.exception()) is None:
            return
        if isinstance(error, SupervisionError):
            self._observers.on_failure(error)
        else:
            self._observers.on_failure(SupervisionError(f"{self.spec.name} can no longer be supervised: {error!r}"))

    async def _terminate(self) -> None:
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.spec.stop_grace_seconds):
                    await process.wait()
        finally:
            _signal_group(process.pid, signal.SIGKILL)
        await process.wait()

    def _describe_end(self, code: int, when: str = "") -> str:
        ending = f"{self.spec.name} ended with {describe_exit(code)}{when}."
        return ending if code < 0 and -code in _ASKED_TO_END else self._with_log(ending)

    def _with_log(self, what: str) -> str:
        end = tail(self.spec.log_path, lines=_SHOWN_LOG_LINES, start=self._log_start)
        return f"{what} The end of {self.spec.log_path}:\n{end}" if end else f"{what} It wrote nothing to its log."

    def _set_status(self, **changes: object) -> None:
        self._status = self._status.model_copy(update=changes)
        self._observers.on_status(self.spec.name, self._status)

    def _report(self, kind: state.StackEventKind, message: str) -> None:
        self._observers.on_event(state.StackEvent(kind, self.spec.name, message))


def describe_exit(code: int) -> str:
    """Describe an exit code as a signal or an exit code."""
    return f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"


def _signal_group(leader: int, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, number)


class RestartPauses:
    """Pauses before the restarts of one process."""

    def __init__(self, policy: RestartPolicy) -> None:
        self._policy = policy
        self._next_seconds = policy.first_pause_seconds

    def forget(self) -> None:
        """Reset the next pause to the first one."""
        self._next_seconds = self._policy.first_pause_seconds

    def after_end(self, ready_seconds: float) -> float:
        """Return the seconds to wait before the next start of a process that was ready for `ready_seconds`."""
        if ready_seconds >= self._policy.steady_seconds:
            self.forget()
        pause = min(self._next_seconds, self._policy.max_pause_seconds)
        self._next_seconds = pause * 2
        return max(0.0, pause - ready_seconds)


def accepts_tcp(host: str, port: int) -> Probe:
    """Return a probe: ready when a server accepts connections there."""

    async def probe() -> bool:
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS):
                _, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    return probe


def answers_http(url: str) -> Probe:
    """Return a probe: ready when the address answers with a 2xx status."""

    async def probe() -> bool:
        try:
            # trust_env off: a proxy for outgoing connections must not be used for loopback.
            async with httpx.AsyncClient(trust_env=False, timeout=_PROBE_TIMEOUT_SECONDS, verify=_NO_TLS) as client:
                return (await client.get(url)).is_success
        except httpx.HTTPError:
            return False

    return probe


def every(*probes: Probe) -> Probe:
    """Return a probe: ready when all of the probes are."""

    async def probe() -> bool:
        return all([await one() for one in probes])

    return probe


async def always() -> bool:
    """Be ready always, for a process whose ready file suffices."""
    return True


def holds_ports(pid: int, ports: Sequence[int]) -> bool:
    """Return whether this process or one of its children listens on all of these TCP ports.

    True also if the system does not permit to see it.
    """
    listening: set[int] = set()
    try:
        leader = psutil.Process(pid)
        for process in (leader, *leader.children(recursive=True)):
            connections = process.net_connections(kind="tcp")
            listening |= {entry.laddr.port for entry in connections if entry.status == psutil.CONN_LISTEN}
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
    return listening.issuperset(ports)


class ReadyFile(BaseModel):
    """Fields of a ready file (`OUTLAST_READY_FILE`) that the stack reads; `outlast.worker.ready_file` writes it."""

    pid: int
    metrics_url: str | None = None
    """Address of its Prometheus metrics, None if it serves none."""


def read_ready_file(path: Path) -> ReadyFile | None:
    """Return the content of the file, None if it does not exist yet."""
    try:
        return ReadyFile.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None


def rotate(path: Path, kept: int = KEPT_LOGS) -> None:
    """Move `x.log` to `x.log.1`, that to `x.log.2`, and so on; the one after number `kept` is dropped."""
    if not path.exists() or path.stat().st_size == 0:
        return
    for number in range(kept, 0, -1):
        older = numbered(path, number)
        newer = numbered(path, number - 1) if number > 1 else path
        if newer.exists():
            newer.replace(older)


def numbered(path: Path, number: int) -> Path:
    """Return the path of the `number`-th last log."""
    return path.with_name(f"{path.name}.{number}")


def tail(path: Path, lines: int = 20, limit_bytes: int = 16 * 1024, start: int = 0) -> str:
    """Return the last lines of a log from byte `start` on, for an error message; empty if there are none."""
    if not path.exists():
        return ""
    with path.open("rb") as log:
        log.seek(max(start, path.stat().st_size - limit_bytes))
        text = log.read().decode(errors="replace")
    return "\n".join(text.splitlines()[-lines:])
