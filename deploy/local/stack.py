"""The embedded stack: everything that Outlast needs, as supervised processes on this machine.

It starts processes and passes environment variables; it does not import the layers. See docs/embedded-stack.md.
"""

import asyncio
import contextlib
import fcntl
import os
import signal
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil

from outlast.deploy.local import errors
from outlast.deploy.local.backups import require_finished_restore
from outlast.deploy.local.config import Component, Outside, StackConfig, look_outside
from outlast.deploy.local.data_directory import record, take_over
from outlast.deploy.local.plan import Planner, StackPlan, components_to_run, lost_a_port, pick_ports, require_embedded
from outlast.deploy.local.ports import PortWish
from outlast.deploy.local.processes import ChildSpec, Observers, RestartPolicy, SupervisedProcess, accepts_tcp
from outlast.deploy.local.state import (
    OnEvent,
    ProcessState,
    ProcessStatus,
    StackAddresses,
    StackEvent,
    StackEventKind,
    StackState,
    ignore_event,
    private_data_dir,
    private_folder,
    read_state,
    write_state,
)
from outlast.deploy.local.tool_reload import LoadedTools, OwnTool, ToolReloader, check_tool_modules
from outlast.paths import DEFAULT_RESERVE_MBYTES, RESERVE_VARIABLE, shortage, written_places

OUTSIDE_TIMEOUT_SECONDS = 10.0
LEFTOVERS_TIMEOUT_SECONDS = 5.0
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STARTS_ON_OTHER_PORTS = 3
"""Number of retries of a start after another program took one of the selected ports."""


class Stack:
    """Running stack on a data directory.

    Entering it starts all parts and returns when they are ready; leaving it stops them in order, within the sum of the
    grace periods. Raises `StackError` with a message for the user if a part cannot be started. Enter it in the main
    thread: the children end with the thread that starts them.

    SIGINT and SIGTERM make `wait` return. Anywhere else they cancel the task that entered the stack, which then leaves
    it with `StackInterruptedError`.
    """

    def __init__(
        self, config: StackConfig, on_event: OnEvent = ignore_event, policy: RestartPolicy | None = None
    ) -> None:
        self._config = config
        self._on_event = on_event
        self._policy = policy or RestartPolicy()
        self._lock = DataDirectoryLock(config.data_dir)
        self._plan: StackPlan | None = None
        self._port_notes: list[str] = []
        self._started_at = ""
        self._processes: list[SupervisedProcess] = []
        self._parts: dict[str, ProcessStatus] = {}
        self._loaded = LoadedTools()
        self._reloader: ToolReloader | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._stop_asked = asyncio.Event()
        self._failure: errors.SupervisionError | None = None
        self._interrupted_by: signal.Signals | None = None
        self._owner: asyncio.Task[object] | None = None
        self._waiting = False

    @property
    def addresses(self) -> StackAddresses:
        """Addresses of the parts, which answer when the stack is entered."""
        if self._plan is None:
            raise errors.StackError("The stack has no addresses before it is entered.")
        return self._plan.addresses

    @property
    def own_tools(self) -> tuple[OwnTool, ...]:
        """The user's tools, as they were loaded last."""
        return (self._loaded if self._reloader is None else self._reloader.loaded).tools

    def pid(self, component: Component | str) -> int | None:
        """Return the process id of a part, None if it is not running."""
        return next((process.pid for process in self._processes if process.spec.name == component), None)

    async def wait(self) -> None:
        """Return when the stack is asked to stop (SIGINT, SIGTERM or `ask_to_stop`).

        A part that ends is restarted while the stack runs.
        """
        self._waiting = True
        try:
            await self._stop_asked.wait()
        except asyncio.CancelledError:
            if not self._was_interrupted():
                raise
        finally:
            self._waiting = False
        if self._failure is not None:
            raise self._failure

    def ask_to_stop(self) -> None:
        """Make `wait` return."""
        self._stop_asked.set()

    async def __aenter__(self) -> Self:
        self._lock.acquire()
        self._owner = asyncio.current_task()
        self._set_signal_handlers()
        try:
            await self._start()
        except BaseException as error:
            await self._leave(error)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._leave(error)

    async def _leave(self, error: BaseException | None) -> None:
        await self._stop()
        if isinstance(error, asyncio.CancelledError) and self._was_interrupted() and self._interrupted_by:
            raise errors.StackInterruptedError(self._interrupted_by) from None

    async def _start(self) -> None:
        self._loaded = await check_tool_modules(self._config)
        if self._config.reload_tools and not self._loaded.files:
            raise errors.ToolModuleError("--reload has no files to watch: name modules of your own with --tools-from.")
        await self._start_all()
        if self._config.reload_tools:
            self._reloader = ToolReloader(self._config, self._processes, self._loaded, self._on_event)
            self._reloading = asyncio.create_task(self._reloader.run(), name="reload-tools")
            self._reloading.add_done_callback(self._on_reloading_end)

    async def _start_all(self) -> None:
        require_finished_restore(self._config.data_dir)
        outside = look_outside(self._config.environment)
        note = take_over(self._config, outside)
        if note is not None:
            self._on_event(StackEvent(StackEventKind.BEGIN_ANEW, "stack", note))
        check_disk(self._config.data_dir, self._config.environment)
        if Component.TEMPORAL in self._config.components:
            await check_temporal(outside)
        await await_leftovers(read_state(self._config.data_dir))
        private_folder(self._config.data_dir / "logs")
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        await self._start_on_free_ports(outside)
        record(self._config, outside)

    async def _start_on_free_ports(self, outside: Outside) -> None:
        for _ in range(_STARTS_ON_OTHER_PORTS):
            try:
                return await self._start_on(self._make_plan(outside))
            except errors.NotReadyError as error:
                await self._stop_processes()  # a part that was only too slow listens on its port until it ends
                if not lost_a_port(self._config, error.component, self._plan.ports if self._plan else {}):
                    raise
                message = f"another program took a port of {error.component}: starting again on others"
                self._on_event(StackEvent(StackEventKind.PORT_CHANGED, "stack", message))
        return await self._start_on(self._make_plan(outside))

    async def _start_on(self, plan: StackPlan) -> None:
        self._plan = plan
        self._parts = {spec.name: ProcessStatus(state=ProcessState.STARTING) for wave in plan.waves for spec in wave}
        self._write_state()
        for wave in plan.waves:
            await self._start_wave(wave)
            if plan.server is not None and Component.TEMPORAL in {spec.name for spec in wave}:
                await plan.server.set_retention(self._config.retention_days)

    def _make_plan(self, outside: Outside) -> StackPlan:
        previous = read_state(self._config.data_dir)
        self._port_notes.clear()
        components = components_to_run(self._config, outside)
        require_embedded(components - self._config.commands.keys())
        picked = pick_ports(self._config, components, previous.ports if previous else {}, self._report_port)
        return Planner(self._config, outside, picked).plan()

    async def _start_wave(self, wave: tuple[ChildSpec, ...]) -> None:
        observers = Observers(self._on_event, self._on_status, self._on_failure)
        processes = [SupervisedProcess(spec, observers, self._policy) for spec in wave]
        self._processes += processes
        starts = [asyncio.create_task(process.start()) for process in processes]
        try:
            await asyncio.gather(*starts)
        finally:
            for start in starts:
                start.cancel()
            await asyncio.gather(*starts, return_exceptions=True)

    async def _stop(self) -> None:
        """Stop all parts, last started first. A second cancellation or signal kills the remaining ones."""
        try:
            if self._reloading is not None:
                self._reloading.cancel()
                await asyncio.wait([self._reloading])
            await self._stop_processes()
        finally:
            for process in self._processes:
                process.kill()
            self._parts.clear()
            self._write_state()
            self._lock.release()
            self._remove_signal_handlers()

    async def _stop_processes(self) -> None:
        for process in reversed(self._processes):
            await process.stop()
        self._processes.clear()

    def _set_signal_handlers(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            with contextlib.suppress(RuntimeError, ValueError):  # not the main thread
                loop.add_signal_handler(number, self._on_signal, number)

    def _remove_signal_handlers(self) -> None:
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            with contextlib.suppress(RuntimeError, ValueError):  # not the main thread
                loop.remove_signal_handler(number)

    def _on_signal(self, number: signal.Signals) -> None:
        """Make `wait` return, or interrupt the owner if it is not waiting. The second signal kills all parts."""
        if self._stop_asked.is_set():
            for process in self._processes:
                process.kill()
            return
        self._interrupted_by = number
        self._stop_asked.set()
        if not self._waiting and self._owner is not None:
            self._owner.cancel()

    def _was_interrupted(self) -> bool:
        """Return whether a signal caused the cancellation, and undo it if so."""
        if self._interrupted_by is None or self._owner is None:
            return False
        self._owner.uncancel()
        return True

    def _on_failure(self, error: errors.SupervisionError) -> None:
        self._failure = self._failure or error
        self._stop_asked.set()

    def _on_reloading_end(self, reloading: asyncio.Task[None]) -> None:
        """Report that changes are no longer watched; everything else continues."""
        if not reloading.cancelled() and (error := reloading.exception()) is not None:
            message = f"changes of tools are no longer watched: {error!r}"
            self._on_event(StackEvent(StackEventKind.RELOAD_FAILED, "tools", message))

    def _on_status(self, component: str, status: ProcessStatus) -> None:
        self._parts[component] = status
        if component == Component.WORKER and status.state is ProcessState.READY and self._plan is not None:
            self._plan = self._plan.with_metrics_at(status.metrics_url)
        self._write_state()

    def _write_state(self) -> None:
        if self._plan is None:
            return
        state = StackState(
            instance_id=self._config.instance_id,
            pid=os.getpid(),
            started_at=self._started_at,
            addresses=self._plan.addresses,
            parts=self._parts,
            ports=dict(self._plan.ports),
            port_notes=tuple(self._port_notes),
            tool_modules=self._config.tool_modules,
            mcp_servers_file=self._config.mcp_servers_file,
            builtin_tools=self._config.environment.get("OUTLAST_BUILTIN_TOOLS") or "on",
            folder=Path.cwd(),
        )
        write_state(self._config.data_dir, state)

    def _report_port(self, wish: PortWish, port: int) -> None:
        message = f"port {wish.default} is taken: the {wish.purpose} port is {port}"
        self._port_notes.append(message)
        self._on_event(StackEvent(StackEventKind.PORT_CHANGED, "stack", message))


class DataDirectoryLock:
    """Lock of this process on a data directory. The kernel releases it when the process ends for any reason."""

    def __init__(self, data_dir: Path) -> None:
        self._data_dir = data_dir
        self._descriptor: int | None = None

    def acquire(self) -> Self:
        """Take the lock, or raise `DataDirectoryInUseError` with the stack that has it."""
        private_data_dir(self._data_dir)
        # Not inherited by children (PEP 446), so none of them can keep the lock after this process.
        descriptor = os.open(self._data_dir / "stack.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        if not _try_lock(descriptor):
            os.close(descriptor)
            raise errors.DataDirectoryInUseError(self._who_has_it())
        self._descriptor = descriptor
        return self

    def release(self) -> None:
        """Release the directory, if it is locked."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _who_has_it(self) -> str:
        state = read_state(self._data_dir)
        owner = "another stack"
        if state is not None:
            owner = f"another stack: process {state.pid}, API at {state.addresses.api_url or 'none'}"
            owner += f", Temporal at {state.addresses.temporal_address or 'none'}"
        return (
            f"The data directory {self._data_dir} is in use by {owner}. Use that stack, stop it first, or select "
            "another directory for this stack (--data-dir or OUTLAST_DATA_DIR)."
        )


def _try_lock(descriptor: int) -> bool:
    """Try for a moment: a process that only checks whether a stack runs holds the lock for an instant, too."""
    for _ in range(5):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(0.02)
        else:
            return True
    return False


async def check_temporal(outside: Outside) -> None:
    """Raise `StackError` if the user's own Temporal server cannot be reached."""
    if outside.temporal_address is None:
        return
    host, _, port = outside.temporal_address.rpartition(":")
    if not port.isdigit():
        raise errors.StackError(f"TEMPORAL_ADDRESS must have the form host:port, not {outside.temporal_address!r}.")
    probe = accepts_tcp(host.strip("[]"), int(port))
    deadline = time.monotonic() + OUTSIDE_TIMEOUT_SECONDS
    while not await probe():
        if time.monotonic() > deadline:
            raise errors.StackError(
                f"Temporal at {outside.temporal_address} (TEMPORAL_ADDRESS or your Temporal profile) cannot be "
                "reached. Start it, correct the address, or unset it to use the embedded server."
            )
        await asyncio.sleep(0.2)


def check_disk(data_dir: Path, environment: Mapping[str, str]) -> None:
    """Raise `StackError` if the disk space is too low for the API to become ready."""
    reserve = environment.get(RESERVE_VARIABLE) or str(DEFAULT_RESERVE_MBYTES)
    audit = environment.get("OUTLAST_AUDIT_FILE")
    places = written_places(data_dir, environment.get("OUTLAST_STORE_URL"), audit if audit != "-" else None)
    found = shortage(places, int(reserve) * 1_000_000) if reserve.isdecimal() else None
    if found is not None:
        raise errors.StackError(found)


async def await_leftovers(state: StackState | None) -> None:
    """Wait for the end of a killed stack's children (the kernel ends them), so that their ports are free again."""
    pids = list(state.children.values()) if state else []
    deadline = time.monotonic() + LEFTOVERS_TIMEOUT_SECONDS
    while any(_is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
