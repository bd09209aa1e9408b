"""Outlast as processes that a test may kill, suspend and bring back, one by one."""

import asyncio
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import ActivityTaskStartedEventAttributes
from temporalio.client import Client

from outlast.deploy.local.processes import Probe, always, answers_http, tail
from outlast.deploy.local.temporal_server import TemporalServer
from outlast.worker.ready_file import read_ready_file
from tests.support.eventually import eventually
from tests.support.ports import free_port
from tests.support.processes.module_process import ModuleProcess
from tests.support.stacks.sandbox import Sandbox
from tests.support.stacks.service import settings_environment
from tests.support.stacks.temporal import start_temporal

_LOOPBACK = "127.0.0.1"
_READY_SECONDS = 150
"""A process needs two to four seconds of a core to start; on a machine with much else to do that takes its time."""

_TOOLS = ("protocol_tools", "exact_clocks", "step_tools", "calling_tools")
SETTINGS = {
    "OUTLAST_START_SETTLE_SECONDS": "3",
    "OUTLAST_RUN_HEARTBEAT_SECONDS": "5",
    "OUTLAST_PROGRESS_SECONDS": "0.5",
    "OUTLAST_REQUEST_TIMEOUT_SECONDS": "3",
    "OUTLAST_SHUTDOWN_SECONDS": "10",
    "OUTLAST_TAKEOVER_SECONDS": "3",
    # Of two quick calls at once, one is the worker's.
    "OUTLAST_QUICK_CALLS": "2",
    "OUTLAST_TOOLS_FROM": ",".join(f"tests.support.tools.{name}" for name in _TOOLS),
}
"""Recovery as quick as the settings allow, so that many moments can be tried."""


Process = ModuleProcess | subprocess.Popen[bytes]
Start = Callable[[Path], Process]
"""Starts a process that writes to a log."""


class Part:
    """One process of the stack."""

    def __init__(
        self, name: str, start: Start, is_ready: Probe, folder: Path, *, ready_file: Path | None = None
    ) -> None:
        """`ready_file` is the one that it writes when it is ready, if it does."""
        self.name = name
        self.log = folder / f"{name}.log"
        self._ready_file = ready_file
        self._start = start
        self._is_ready = is_ready
        self._process: Process | None = None

    @property
    def process(self) -> Process | None:
        """The process that was started last."""
        return self._process

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it anew, with the same ports and the same state."""
        assert not self.is_alive, f"{self.name} is running"
        self._process = self._start(self.log)

    async def ready(self) -> None:
        """Return when it answers; one that ended before (a server it needs was not up yet) is started again."""

        async def answers() -> bool:
            if not self.is_alive:
                self.start()
            return await self._is_ready() and self._says_so() and self.is_alive

        try:
            await eventually(answers, timeout_seconds=_READY_SECONDS, interval_seconds=0.1)
        except AssertionError as error:
            raise AssertionError(f"{self.name} does not get ready:\n{tail(self.log)}") from error

    def _says_so(self) -> bool:
        """Whether its ready file, if it has one, is of this process, and not of one that was killed."""
        if self._ready_file is None:
            return True
        written = read_ready_file(self._ready_file)
        return written is not None and written.pid == self.pid

    def kill(self) -> None:
        """`kill -9`: nothing of it is left on return."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    async def restart(self) -> None:
        """`kill -9`, and bring it back."""
        self.kill()
        self.start()
        await self.ready()

    async def terminate(self) -> None:
        """SIGTERM, and wait until it has ended by itself."""
        self.ask_to_stop()
        await self.ended()

    def ask_to_stop(self) -> None:
        """SIGTERM."""
        assert self._process is not None
        self._process.terminate()

    async def ended(self) -> None:
        """Return when it has ended well, by itself."""
        assert self._process is not None
        assert await asyncio.to_thread(self._process.wait, 30) == 0

    def suspend(self) -> None:
        """Stop the process where it stands, as a frozen machine would."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_alive and self._process is not None:
            self._process.send_signal(number)


class ChaosStack:
    """Temporal server on a database file, worker and API, on a sandbox platform that stays alive."""

    def __init__(self, folder: Path, sandbox: Sandbox, *, temporal_options: Sequence[str] = (), **extra: str) -> None:
        """`extra` is added to the environment of the worker, and of what else reads it."""
        self.sandbox = sandbox
        self._folder, self._extra = folder, extra
        self.temporal_server = TemporalServer(*(free_port() for _ in range(3)), database=folder / "temporal.db")
        self._api_port = free_port()
        self.api_url = f"http://{_LOOPBACK}:{self._api_port}"
        server = self.temporal_server
        self.temporal = Part(
            "temporal", lambda log: start_temporal(server, log, options=temporal_options), server.is_ready(), folder
        )
        self._worker_port = free_port()
        self.worker_url = f"http://{_LOOPBACK}:{self._worker_port}/metrics"
        self.worker = self.new_worker("worker", self._worker_port)
        self.api = self._new_api()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for part in (self.api, self.worker, self.temporal):
            part.kill()

    @property
    def outputs(self) -> Path:
        """The folder of its output store."""
        return self._folder / "outputs"

    def new_worker(self, name: str, port: int | None = None, **extra: str) -> Part:
        """A worker of its own, with its metrics on `port`; several of them share the work."""
        ready_file = self._folder / f"{name}.ready"
        own = {"OUTLAST_WORKER_METRICS_PORT": str(port or free_port()), "OUTLAST_READY_FILE": str(ready_file)}
        start = starting("outlast.worker", self.environment(**own, **extra))
        return Part(name, start, always, self._folder, ready_file=ready_file)

    def renew_worker(self, **settings: str) -> None:
        """Another worker in the place of the one that was killed, with further settings; not started yet."""
        self.worker = self.new_worker("worker", self._worker_port, **settings)

    def renew_api(self, **settings: str) -> None:
        """Another API in the place of the one that was killed, with further settings; not started yet."""
        self.api = self._new_api(**settings)

    def _new_api(self, **extra: str) -> Part:
        environment = self.environment(OUTLAST_API_PORT=str(self._api_port), **extra)
        ready = answers_http(f"{self.api_url}/healthz")
        return Part("api", starting("outlast.api", environment), ready, self._folder)

    async def bring_up(self) -> None:
        """Everything alive, whatever the test before has left."""
        for part in (self.temporal, self.worker, self.api):
            part.resume()
            if not part.is_alive:
                part.start()
                if part is self.temporal:
                    await part.ready()
        await asyncio.gather(self.worker.ready(), self.api.ready())

    def environment(self, **extra: str) -> dict[str, str]:
        """The environment of its processes."""
        environment = settings_environment(
            self.temporal_server.address, self.sandbox, **{**SETTINGS, **self._extra, **extra}
        )
        return {**environment, "OUTLAST_DATA_DIR": str(self._folder), "OUTLAST_LOG_FORMAT": "text"}


def starting(module: str, environment: Mapping[str, str], *arguments: str) -> Start:
    """What starts `python -m MODULE ARGUMENTS`."""
    return lambda log: ModuleProcess(module, arguments, log=log, environment=environment)


FOLLOW = "wait_for_run"


def works_in(identity: str, part: Part) -> bool:
    """Whether a worker of this identity (`PID@HOST/XXXX`) is that process."""
    assert isinstance(part.process, ModuleProcess)
    return identity.startswith(f"{part.process.pid}@")


async def follower(client: Client, task_id: str) -> str:
    """The identity of the worker that follows the task's run."""

    async def known() -> str | None:
        described = await client.get_workflow_handle(task_id).describe()
        pending = described.raw_description.pending_activities
        return next((one.last_worker_identity for one in pending if one.activity_type.name == FOLLOW), None)

    return await eventually(known)


async def attempts(client: Client, task_id: str) -> dict[str, ActivityTaskStartedEventAttributes]:
    """The attempt of each activity that ended it."""
    names: dict[int, str] = {}
    started: dict[str, ActivityTaskStartedEventAttributes] = {}
    async for event in client.get_workflow_handle(task_id).fetch_history_events():
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            names[event.event_id] = event.activity_task_scheduled_event_attributes.activity_type.name
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
            attributes = event.activity_task_started_event_attributes
            started[names[attributes.scheduled_event_id]] = attributes
    return started
