"""Executions: the process (or, for benchmarks, the coroutine) of a run.

A process runs in its own session under a shell that writes the exit code to a file. It survives a crash of the sandbox,
which finds it again by process ID and start time, or reads the exit code from the file. Its output goes to a raw file,
which neither blocks nor fails when the sandbox dies. The sandbox copies each line to the log after a timestamp of 25
bytes, so that the size of the log shows how much of the raw file has been copied.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast
from urllib.parse import urlsplit

import orjson

from outlast.deploy.local.sandbox.actors import Actor
from outlast.deploy.local.sandbox.formats import JsonObject, iso, now
from outlast.deploy.local.sandbox.runs import Run, pricing_info
from outlast.deploy.local.sandbox.storages import Datasets, KeyValueStores

# The trap keeps the shell alive when the Actor gets SIGTERM, so that the exit code is still written.
_SHELL = 'trap : TERM; "$@"; code=$?; echo $code > "$0.part" && mv "$0.part" "$0"'
_CHUNK_BYTES = 64 * 1024
_POLL_SECONDS = 0.1
_INHERITED = (
    "PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "NODE_EXTRA_CA_CERTS", "NO_PROXY", "no_proxy", "LD_LIBRARY_PATH", "VIRTUAL_ENV", "PLAYWRIGHT_BROWSERS_PATH",
)  # fmt: skip
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


class ProcessExecution:
    """Process group of a run: started by this sandbox, or adopted after a restart."""

    def __init__(self, process_id: int, exit_file: Path, child: subprocess.Popen[bytes] | None = None) -> None:
        self.process_id = process_id
        self._exit_file = exit_file
        self._child = child

    async def wait(self) -> int | None:
        """Wait for the end; return the exit code, or None if the process was killed from outside."""
        try:
            pidfd = os.pidfd_open(self.process_id)
        except ProcessLookupError:
            return read_exit_code(self._exit_file)
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
        self.kill()  # Background processes of the Actor end with it, as in a container.
        return read_exit_code(self._exit_file)

    def stop(self) -> None:
        """Ask the process to end."""
        self._signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the process and everything that it started."""
        self._signal(signal.SIGKILL)

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process_id, number)


class CoroutineExecution:
    """Coroutine in the sandbox's process that behaves like an Actor."""

    def __init__(self, work: Coroutine[object, object, int]) -> None:
        self._task = asyncio.ensure_future(work)

    async def wait(self) -> int | None:
        """Wait for the end; return the exit code, or None if the coroutine was cancelled."""
        await asyncio.wait([self._task])
        return None if self._task.cancelled() else self._task.result()

    def stop(self) -> None:
        """End the coroutine."""
        self._task.cancel()

    kill = stop


Execution = ProcessExecution | CoroutineExecution


def start_process(
    command: Sequence[str], *, folder: Path, environment: Mapping[str, str], log: Path, exit_file: Path
) -> ProcessExecution:
    """Start a command in its own session, with its output in the log. Raises OSError."""
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


def read_exit_code(exit_file: Path) -> int | None:
    """Return the exit code that the shell wrote, None if it wrote none."""
    try:
        return int(exit_file.read_text())
    except (FileNotFoundError, ValueError):
        return None


def process_started_at(process_id: int) -> float | None:
    """Return the start time of a running process, which distinguishes it from an earlier process with the same ID."""
    import psutil  # noqa: PLC0415 (only needed for runs: the sandbox starts sooner)

    try:
        process = psutil.Process(process_id)
        return None if process.status() == psutil.STATUS_ZOMBIE else process.create_time()
    except psutil.Error:
        return None


def memory_by_session(sessions: set[int]) -> dict[int, int]:
    """Return the resident bytes of all processes of each session."""
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


class RunLog:
    """Raw file and log of a run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.raw_path = folder / "raw.log"
        self.path = folder / "log.txt"
        folder.mkdir(parents=True, exist_ok=True)
        self._taken_over = self._position()

    def add(self, line: str) -> None:
        """Add a line of the platform: `ACTOR: ...`."""
        with self.raw_path.open("ab") as raw:
            raw.write(f"ACTOR: {line}\n".encode())
        self.take_over()

    def take_over(self, *, everything: bool = False) -> None:
        """Copy new complete lines of the raw file to the log; with `everything`, also an incomplete last line."""
        if not self.raw_path.exists():
            return
        with self.raw_path.open("rb") as raw:
            raw.seek(self._taken_over)
            data = raw.read()
        complete = data if everything else data[: data.rfind(b"\n") + 1]
        if not complete:
            return
        stamp = f"{iso(now())} ".encode()
        lines = complete.removesuffix(b"\n").split(b"\n")
        with self.path.open("ab") as log:
            log.write(b"".join(stamp + line + b"\n" for line in lines))
        self._taken_over += len(complete)

    def _position(self) -> int:
        if not self.path.exists():
            return 0
        with self.path.open("rb") as log:
            return sum(len(line) - 25 for line in log)


async def read_log(path: Path, is_open: Callable[[], bool], *, follow: bool) -> AsyncIterator[bytes]:
    """Yield the log from its beginning; with `follow`, until the run has ended."""
    position = 0
    while True:
        # Checked before reading, so that everything written before the end is read.
        may_grow = follow and is_open()
        while chunk := _read_chunk(path, position):
            position += len(chunk)
            yield chunk
        if not may_grow:
            return
        await asyncio.sleep(_POLL_SECONDS)


def _read_chunk(path: Path, position: int) -> bytes:
    if not path.exists():
        return b""
    with path.open("rb") as log:
        log.seek(position)
        return log.read(_CHUNK_BYTES)


def actor_environment(actor: Actor, run: Run, *, token: str, base_url: str, home: str) -> dict[str, str]:
    """Return all variables of a run's process, under the names that the platform documents and the SDK reads."""
    timeout_at = iso(run.attempt_began_at + run.timeout_seconds) if run.timeout_seconds else ""
    return {
        **_common_variables(actor, run.user_id, token, base_url),
        "HOME": home,
        "CRAWLEE_STORAGE_DIR": f"{home}/storage",
        "APIFY_META_ORIGIN": run.origin,
        "APIFY_HEADLESS": "1",
        "APIFY_DEDICATED_CPUS": str(max(0.125, run.memory_mbytes / 4096)),
        "APIFY_CHARGED_ACTOR_EVENT_COUNTS": orjson.dumps(run.charged).decode(),
        "APIFY_ACTOR_PRICING_INFO": orjson.dumps(pricing_info(run.prices, run.started_at) or {}).decode(),
        "CRAWLEE_PURGE_ON_START": "0",
        "ACTOR_RUN_ID": run.id,
        "ACTOR_TASK_ID": "",
        "ACTOR_BUILD_ID": run.build_id,
        "ACTOR_BUILD_NUMBER": run.build_number,
        "ACTOR_BUILD_TAGS": run.build_tag,
        "ACTOR_DEFAULT_DATASET_ID": run.dataset_id,
        "ACTOR_DEFAULT_KEY_VALUE_STORE_ID": run.store_id,
        "ACTOR_DEFAULT_REQUEST_QUEUE_ID": run.queue_id,
        "ACTOR_STORAGES_JSON": orjson.dumps(run.storage_ids).decode(),
        "ACTOR_INPUT_KEY": "INPUT",
        "ACTOR_EVENTS_WEBSOCKET_URL": f"{base_url.replace('http', 'ws', 1)}/events/{run.id}",
        "ACTOR_MEMORY_MBYTES": str(run.memory_mbytes),
        "ACTOR_STARTED_AT": iso(run.started_at),
        "ACTOR_TIMEOUT_AT": timeout_at,
        "ACTOR_MAX_PAID_DATASET_ITEMS": "" if run.max_items is None else str(run.max_items),
        "ACTOR_MAX_TOTAL_CHARGE_USD": "" if run.max_total_charge_usd is None else str(run.max_total_charge_usd),
    }


def standby_environment(actor: Actor, *, user_id: str, token: str, base_url: str, port: int) -> dict[str, str]:
    """Return all variables of a Standby process, which has no run and therefore no storages."""
    return {
        **_common_variables(actor, user_id, token, base_url),
        "APIFY_META_ORIGIN": "STANDBY",
        "ACTOR_STANDBY_PORT": str(port),
        "ACTOR_WEB_SERVER_PORT": str(port),
        "ACTOR_STANDBY_URL": f"{base_url}/standby/{actor.username}~{actor.name}",
    }


def _common_variables(actor: Actor, user_id: str, token: str, base_url: str) -> dict[str, str]:
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    # A proxy address may contain a password, which an Actor must not get.
    proxies = {name: os.environ[name] for name in _PROXIES if os.environ.get(name)}
    return {
        **kept,
        **{name: address for name, address in proxies.items() if urlsplit(address).password is None},
        **actor.environment,
        "PYTHONUNBUFFERED": "1",
        "PYTHONDONTWRITEBYTECODE": "1",
        "APIFY_IS_AT_HOME": "1",
        "APIFY_TOKEN": token,
        "APIFY_USER_ID": user_id,
        "APIFY_API_BASE_URL": base_url,
        "APIFY_API_PUBLIC_BASE_URL": base_url,
        "ACTOR_ID": actor.id,
        "ACTOR_FULL_NAME": actor.full_name,
        "ACTOR_BUILD_ID": actor.build_id,
        "ACTOR_BUILD_NUMBER": actor.build_number,
    }


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Parts of the sandbox that an in-process Actor uses."""

    datasets: Datasets
    stores: KeyValueStores
    report: Callable[[str], None]
    aborting: asyncio.Event
    """Set when the run is aborted gracefully, in place of the platform's event of that name."""


async def sleeper(run: Run, surroundings: Surroundings) -> int:
    """Run `outlast/sleeper` and return its exit code.

    It counts the time of the run: a restart of the sandbox does not prolong it, and a resurrected run continues.
    """
    found = surroundings.stores.get(run.store_id, "INPUT")
    settings = cast("JsonObject", orjson.loads(found[0].read_bytes())) if found else {}
    seconds, steps = float(settings.get("seconds", 10)), int(settings.get("steps", 10))
    message, rows = str(settings.get("message", "")), int(settings.get("rows", 1))
    suffix = f": {message}" if message else ""
    pushed = surroundings.datasets.item_count(run.dataset_id)
    slept = 0.0
    for step in range(steps + 1):
        due = seconds * step / steps
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(surroundings.aborting.wait(), max(0.0, due - run.duration_seconds()))
            break
        slept = due
        surroundings.report(f"Slept {_written(due)} of {_written(seconds)} s{suffix}")
        until = rows * step // steps
        if until > pushed:
            await surroundings.datasets.push(run.dataset_id, orjson.dumps(_rows(settings, seconds, pushed, until)))
            pushed = until
    aborted = surroundings.aborting.is_set()
    output = {"sleptSeconds": slept, "requestedSeconds": seconds, "rows": pushed, "message": message}
    output["aborted"] = aborted
    surroundings.stores.put(run.store_id, "OUTPUT", "application/json; charset=utf-8", orjson.dumps(output))
    if aborted:
        surroundings.report(f"Aborted after {_written(slept)} of {_written(seconds)} s")
        return 0
    failure = cast("JsonObject | None", settings.get("failWith"))
    if failure is None:
        return 0
    surroundings.report(str(failure.get("message", "Failed because the input asked for it.")))
    return int(failure.get("exitCode", 1))


def _rows(settings: JsonObject, seconds: float, first: int, end: int) -> list[JsonObject]:
    row = {"message": settings.get("message", ""), "seconds": seconds, "createdAt": iso(now())}
    if settings.get("rowBytes"):
        row["payload"] = "z" * int(settings["rowBytes"])
    return [{"index": index, **row} for index in range(first, end)]


def _written(seconds: float) -> str:
    return f"{seconds:.2f}".rstrip("0").rstrip(".")


IN_PROCESS_ACTORS: dict[str, Callable[[Run, Surroundings], Coroutine[object, object, int]]] = {
    "outlast/sleeper": sleeper,
}
