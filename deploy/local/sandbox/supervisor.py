"""Supervision of runs from READY to the end: their executions, limits, events and stops."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import secrets
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from outlast.deploy.local.sandbox import execution as executions
from outlast.deploy.local.sandbox.accounts import Users
from outlast.deploy.local.sandbox.actors import Actor, Catalogue
from outlast.deploy.local.sandbox.execution import IN_PROCESS_ACTORS, Execution, ProcessExecution, RunLog, Surroundings
from outlast.deploy.local.sandbox.formats import JsonObject, iso, now
from outlast.deploy.local.sandbox.runs import Run, Runs
from outlast.deploy.local.sandbox.settings import Settings

logger = logging.getLogger(__name__)

_TICK_SECONDS = 0.1
_MEMORY_TICKS = 5
_KILLED_FOR_MEMORY = 137
"""The exit code of a container that used too much memory (128 + SIGKILL)."""


@dataclass(slots=True)
class LiveRun:
    """State of a run that is needed only while it is open."""

    run: Run
    log: RunLog | None
    finished: asyncio.Event = field(default_factory=asyncio.Event)
    execution: Execution | None = None
    task: asyncio.Task[None] | None = None
    stopping: asyncio.Task[None] | None = None
    listeners: set[asyncio.Queue[JsonObject]] = field(default_factory=set["asyncio.Queue[JsonObject]"])
    failure: str | None = None
    is_out_of_memory: bool = False
    aborting: asyncio.Event = field(default_factory=asyncio.Event)
    """Set by a graceful abort, for an Actor that runs in this process and has no WebSocket."""


class Supervisor:
    """Supervisor of open runs. `observer` is called with the run and the event's name when it is created and ends."""

    def __init__(
        self,
        settings: Settings,
        runs: Runs,
        catalogue: Catalogue,
        users: Users,
        surroundings: Callable[[Callable[[str], None], asyncio.Event], Surroundings],
        observer: Callable[[Run, str], None],
    ) -> None:
        self._settings = settings
        self._runs = runs
        self._catalogue = catalogue
        self._users = users
        self._surroundings = surroundings
        self._observer = observer
        self._directory = settings.data_dir / "runs"
        self._live: dict[str, LiveRun] = {}
        self._ticker: asyncio.Task[None] | None = None

    # Start and end of the supervisor.

    def begin(self) -> None:
        """Resume the runs that were open when the sandbox last ended, and start the supervision of all runs."""
        self._ticker = asyncio.create_task(self._tick())
        for run in self._runs.open:
            self._resume(run)

    async def end(self) -> None:
        """Stop all processes without ending their runs: the next `begin` starts them again, as in a migration."""
        if self._ticker is not None:
            self._ticker.cancel()
        for live in self._live.values():
            self._publish(live, "migrating", {})
            if live.task is not None:
                live.task.cancel()
            if live.execution is not None:
                live.execution.kill()
            live.run.process_id = None
            self._runs.save(live.run)

    # Requests of the routes.

    def start(self, run: Run) -> None:
        """Start a run that was saved as READY."""
        live = self._add(run)
        live.task = asyncio.create_task(self._launch(live))
        self._observer(run, "ACTOR.RUN.RESURRECTED" if run.resurrections else "ACTOR.RUN.CREATED")

    def lose(self, run: Run) -> None:
        """End an open run as if its server were lost: at once, and without an exit code."""
        live = self._live.get(run.id)
        if live is not None and live.execution is not None:
            live.failure = "The server that ran the Actor was lost"
            live.execution.kill()

    async def wait(self, run: Run, seconds: float) -> Run:
        """Return the run when it has ended, or after `seconds`."""
        live = self._live.get(run.id)
        if live is not None and seconds > 0:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(live.finished.wait(), seconds)
            return live.run
        return run

    def abort(self, run: Run, *, gracefully: bool) -> None:
        """Begin to stop an open run. Does nothing for a run that has ended."""
        live = self._live.get(run.id)
        if live is None:
            return
        run.abort_requests += 1
        if run.status != "TIMING-OUT":
            run.status = "ABORTING"
        self._runs.save(run)
        if live.stopping is not None and not gracefully:
            live.stopping.cancel()
            live.stopping = None
        if live.stopping is None:
            live.stopping = asyncio.create_task(self._stop(live, gracefully=gracefully))

    def set_status_message(self, run: Run, message: str | None, *, is_terminal: bool | None) -> None:
        """Set the status message that the run reports."""
        if message is not None:
            run.status_message = message
        if is_terminal is not None:
            run.is_status_message_terminal = is_terminal
        if run.id in self._live:
            self._runs.save_soon(run)

    def log(self, run: Run, line: str) -> None:
        """Add a line of the platform to the run's log."""
        live = self._live.get(run.id)
        if live is not None and live.log is not None:
            live.log.add(line)

    def is_open(self, run_id: str) -> bool:
        """Return whether the run is open, so that its log may still grow."""
        return run_id in self._live

    def log_path(self, run_id: str) -> Path:
        """Return the path of a run's log, which may not exist yet."""
        return self._folder(run_id) / "log.txt"

    def listen(self, run_id: str) -> asyncio.Queue[JsonObject] | None:
        """Return a queue of the platform's events for a run, for its WebSocket; None if the run is not open."""
        live = self._live.get(run_id)
        if live is None:
            return None
        queue: asyncio.Queue[JsonObject] = asyncio.Queue()
        live.listeners.add(queue)
        return queue

    def unlisten(self, run_id: str, queue: asyncio.Queue[JsonObject]) -> None:
        """End `listen`."""
        live = self._live.get(run_id)
        if live is not None:
            live.listeners.discard(queue)

    # One run from start to end.

    def _add(self, run: Run) -> LiveRun:
        is_inside = run.actor_name in self._settings.in_process and run.actor_name in IN_PROCESS_ACTORS
        self._live[run.id] = live = LiveRun(run, None if is_inside else RunLog(self._folder(run.id)))
        return live

    def _resume(self, run: Run) -> None:
        live = self._add(run)
        exit_file = self._exit_file(run.id)
        if run.process_id is None:
            run.migrations += 1
            live.task = asyncio.create_task(self._launch(live))
            return
        if executions.process_started_at(run.process_id) == run.process_started_at:
            logger.info("run %s continues in process %d", run.id, run.process_id)
            live.task = asyncio.create_task(self._adopt(live, ProcessExecution(run.process_id, exit_file)))
            return
        exit_code = executions.read_exit_code(exit_file)
        if exit_code is None:
            live.failure = "The Actor's process ended while the sandbox was not running"
        self._finish(live, exit_code)

    async def _adopt(self, live: LiveRun, execution: ProcessExecution) -> None:
        live.execution = execution
        if live.run.status in {"ABORTING", "TIMING-OUT"}:
            live.stopping = asyncio.create_task(self._stop(live, gracefully=False))
        await self._await_end(live)

    async def _launch(self, live: LiveRun) -> None:
        run = live.run
        actor = self._catalogue.by_id(run.actor_id)
        if actor is None:
            live.failure = "The Actor's folder no longer exists"
            self._finish(live, None)
            return
        if run.status not in {"READY", "RUNNING"}:
            self._finish(live, None)
            return
        try:
            live.execution = self._execution(live, actor)
        except OSError as error:
            live.failure = f"The Actor could not be started: {error}"
            self._finish(live, None)
            return
        run.status = "RUNNING"
        self._runs.save(run)
        await self._await_end(live)

    def _execution(self, live: LiveRun, actor: Actor) -> Execution:
        run = live.run
        if live.log is None:
            inside = IN_PROCESS_ACTORS[actor.full_name]
            report: Callable[[str], None] = lambda text: self.set_status_message(run, text, is_terminal=None)  # noqa: E731
            return executions.CoroutineExecution(inside(run, self._surroundings(report, live.aborting)))
        token = f"apify_api_run_{secrets.token_urlsafe(24)}"
        self._users.add_token(token, run.user_id, run.id)
        home = live.log.folder / "home"
        home.mkdir(exist_ok=True)
        live.log.add(f"Starting {actor.full_name} build {run.build_number} with {run.memory_mbytes} MB of memory")
        base_url = self._settings.base_url
        execution = executions.start_process(
            actor.command,
            folder=actor.folder,
            environment=executions.actor_environment(actor, run, token=token, base_url=base_url, home=str(home)),
            log=live.log.raw_path,
            exit_file=self._exit_file(run.id),
        )
        run.process_id = execution.process_id
        run.process_started_at = executions.process_started_at(execution.process_id)
        return execution

    async def _await_end(self, live: LiveRun) -> None:
        """Wait for the end of the execution, or of its time, and record how the run ended."""
        run, execution = live.run, live.execution
        assert execution is not None
        ending = asyncio.ensure_future(execution.wait())
        try:
            remaining = run.attempt_began_at + run.timeout_seconds - now() if run.timeout_seconds else None
            done, _ = await asyncio.wait([ending], timeout=None if remaining is None else max(0.0, remaining))
            if not done and run.status == "RUNNING":
                run.status = "TIMING-OUT"
                self._runs.save(run)
                live.stopping = live.stopping or asyncio.create_task(self._stop(live, gracefully=False))
            exit_code = await ending
        finally:
            ending.cancel()
        self._finish(live, exit_code)

    async def _stop(self, live: LiveRun, *, gracefully: bool) -> None:
        """Send the `aborting` event if `gracefully`, then SIGTERM, then SIGKILL. `_await_end` detects the end."""
        if gracefully:
            live.aborting.set()
            self._publish(live, "aborting", {})
            self._publish(live, "persistState", {"isMigrating": False})
            await asyncio.sleep(self._settings.graceful_abort_seconds)
        if live.execution is not None:
            live.execution.stop()
            await asyncio.sleep(self._settings.kill_after_seconds)
            live.execution.kill()

    def _finish(self, live: LiveRun, exit_code: int | None) -> None:
        run = live.run
        if live.is_out_of_memory:
            exit_code = _KILLED_FOR_MEMORY
        match run.status:
            case "ABORTING":
                run.status = "ABORTED"
            case "TIMING-OUT":
                run.status = "TIMED-OUT"
            case _:
                run.status = "SUCCEEDED" if exit_code == 0 and live.failure is None else "FAILED"
        run.exit_code, run.finished_at, run.memory_now_bytes = exit_code, now(), 0
        if not run.is_status_message_terminal:
            run.status_message = self._final_status_message(live, exit_code)
        if live.log is not None:
            live.log.take_over(everything=True)
            live.log.add(f"The run ended: {run.status}" + (f", exit code {exit_code}" if exit_code is not None else ""))
        run.process_id = run.process_started_at = None
        self._runs.save(run)
        self._close(live)

    def _close(self, live: LiveRun) -> None:
        run = live.run
        if live.stopping is not None:
            live.stopping.cancel()
        if live.log is not None:
            self._users.drop_run_token(run.id)
            shutil.rmtree(live.log.folder / "home", ignore_errors=True)
        del self._live[run.id]
        live.finished.set()
        logger.info("run %s of %s ended: %s", run.id, run.actor_name, run.status)
        self._observer(run, f"ACTOR.RUN.{run.status.replace('-', '_')}")

    @staticmethod
    def _final_status_message(live: LiveRun, exit_code: int | None) -> str | None:
        """Return the status message of an ended run: the Actor's last one, or why the platform ended it."""
        run = live.run
        if live.failure is not None:
            return live.failure
        if run.status == "TIMED-OUT":
            return f"The run was stopped after its time limit of {run.timeout_seconds} s"
        if run.status == "ABORTED":
            return run.status_message or "The run was aborted"
        if run.status == "FAILED" and run.status_message is None:
            return "The Actor's process was killed" if exit_code is None else f"The Actor exited with code {exit_code}"
        return run.status_message

    # Supervision of all open runs.

    async def _tick(self) -> None:
        tick = 0
        while True:
            await asyncio.sleep(_TICK_SECONDS)
            tick += 1
            self._runs.flush()
            for live in list(self._live.values()):
                if live.log is not None:
                    live.log.take_over()
            if tick % _MEMORY_TICKS == 0:
                self._watch_memory()

    def _watch_memory(self) -> None:
        watched = {live.run.process_id: live for live in self._live.values() if live.run.process_id is not None}
        if not watched:
            return
        for process_id, used_bytes in executions.memory_by_session(set(watched)).items():
            live = watched[process_id]
            run = live.run
            run.memory_now_bytes = used_bytes
            run.memory_sum_bytes += used_bytes
            run.memory_samples += 1
            run.memory_max_bytes = max(run.memory_max_bytes, used_bytes)
            self._publish(live, "systemInfo", _system_info(run))
            if used_bytes > run.memory_mbytes * 1024 * 1024 and live.failure is None and live.execution is not None:
                live.failure = f"The Actor used more memory than its limit of {run.memory_mbytes} MB"
                live.is_out_of_memory = True
                self.log(run, live.failure)
                live.execution.kill()

    @staticmethod
    def _publish(live: LiveRun, name: str, data: JsonObject) -> None:
        for queue in live.listeners:
            queue.put_nowait({"name": name, "data": data, "createdAt": iso(now())})

    def _folder(self, run_id: str) -> Path:
        return self._directory / run_id[:2] / run_id

    def _exit_file(self, run_id: str) -> Path:
        return self._folder(run_id) / "exit-code"


def _system_info(run: Run) -> JsonObject:
    return {
        "memAvgBytes": run.memory_now_bytes,
        "memCurrentBytes": run.memory_now_bytes,
        "memMaxBytes": run.memory_mbytes * 1024 * 1024,
        **dict.fromkeys(("cpuAvgUsage", "cpuMaxUsage", "cpuCurrentUsage"), 0.0),
        "isCpuOverloaded": False,
        "createdAt": iso(now()),
    }
