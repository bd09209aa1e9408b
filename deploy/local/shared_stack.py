"""Stacks in their own process: shared by several users, or started in the background and stopped by a command.

A shared stack starts with its first user and ends after its last. Each user holds a shared lock on `users.lock` in the
data directory, which the kernel releases when the user's process ends. With `--keep` a stack runs until it is stopped.
"""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path

import psutil

from outlast.deploy.local.config import StackConfig, look_outside
from outlast.deploy.local.errors import DataDirectoryInUseError, NotReadyError, StackError
from outlast.deploy.local.plan import STOP_GRACE_SECONDS, components_to_run, require_embedded
from outlast.deploy.local.processes import answers_http, tail
from outlast.deploy.local.stack import Stack
from outlast.deploy.local.state import (
    UMASK,
    OnEvent,
    StackAddresses,
    StackEvent,
    StackState,
    find_running,
    private_data_dir,
    private_file,
    private_folder,
)

LOG_NAME = "stack.log"
_LOOK_SECONDS = 0.1
_STOP_SECONDS = sum(STOP_GRACE_SECONDS.values()) + 15
_CLOCK_SECONDS = 5
"""A process that started later than this after `started_at` did not write it: the kernel reused the id."""


def start_process(config: StackConfig, *options: str) -> "subprocess.Popen[bytes]":
    """Start the stack in its own session, so that signals to this process's group do not reach it.

    Its output goes to `logs/stack.log`. Without options it ends when it is unused, with `--keep` when it is stopped.
    """
    log = config.data_dir / "logs" / LOG_NAME
    private_folder(private_data_dir(config.data_dir) / "logs")
    given = config.model_dump_json(exclude={"environment"})
    command = [sys.executable, "-P", "-m", "outlast.deploy.local.shared_stack", given, *options]
    with private_file(log, "ab") as output:
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env=dict(config.environment),
            start_new_session=True,
            umask=UMASK,
        )
    # It outlives this process. If it ends first, this leaves no zombie, and Python does not warn.
    threading.Thread(target=process.wait, name="detached-stack", daemon=True).start()
    return process


async def start_detached(config: StackConfig) -> StackState:
    """Start a stack that outlives this process; return when all of its parts are ready.

    Raises `NotReadyError` with the end of its log if it does not become ready. A cancellation stops it.
    """
    log = config.data_dir / "logs" / LOG_NAME
    log_start = log.stat().st_size if log.exists() else 0
    process = start_process(config, "--keep")
    try:
        while process.poll() is None:
            state = find_running(config.data_dir)
            if state is not None and state.instance_id == config.instance_id and state.is_ready:
                return state
            await asyncio.sleep(_LOOK_SECONDS)
    except asyncio.CancelledError:
        process.terminate()
        raise
    raise NotReadyError(tail(log, start=log_start) or f"The stack ended without a message. Log: {log}")


async def stop_running(data_dir: Path) -> StackState | None:
    """Stop the stack on this directory in order; return its last state, or None if no stack is running.

    Raises `StackError` if it does not end.
    """
    state = find_running(data_dir)
    if state is None:
        return None
    deadline = time.monotonic() + _STOP_SECONDS
    if _is_owner(state):
        os.kill(state.pid, signal.SIGTERM)
    while find_running(data_dir) is not None:
        if time.monotonic() > deadline:
            raise StackError(f"The stack on {data_dir} (process {state.pid}) does not stop: kill -9 {state.pid}")
        await asyncio.sleep(_LOOK_SECONDS)
    return state


def _is_owner(state: StackState) -> bool:
    """Return whether the process with this id is the stack that wrote the state, not a later one with the same id."""
    try:
        began = psutil.Process(state.pid).create_time()
    except psutil.NoSuchProcess:
        return False
    return began <= datetime.fromisoformat(state.started_at).timestamp() + _CLOCK_SECONDS


_UNUSED_SECONDS = 10.0
_USE_LOOK_SECONDS = 1.0
_READY_SECONDS = 120.0


@asynccontextmanager
async def used_stack(config: StackConfig, on_wait: Callable[[], None] = lambda: None) -> AsyncGenerator[StackAddresses]:
    """Yield the addresses of the stack on the data directory, which runs at least until the end of the block.

    A running stack is joined, or a new one is started; `on_wait` is called once before waiting for it. Raises
    `StackError` if it does not become ready, `EmbeddedMissingError` if packages of its servers are missing.
    """
    private_data_dir(config.data_dir)
    lock = os.open(config.data_dir / "users.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)
        yield await _joined(config, on_wait)
    finally:
        os.close(lock)


async def _joined(config: StackConfig, on_wait: Callable[[], None]) -> StackAddresses:
    starting: subprocess.Popen[bytes] | None = None
    is_first = True
    deadline = time.monotonic() + max(_READY_SECONDS, 2 * config.ready_timeout_seconds)
    while time.monotonic() < deadline:
        state = find_running(config.data_dir)
        url = state.addresses.api_url if state else None
        if state is not None and url is not None and await answers_http(f"{url}/readyz")():
            return state.addresses
        if state is None and (starting is None or starting.poll() == 0):
            # No stack is running: the one found before, or that of another user, has stopped.
            require_embedded(components_to_run(config, look_outside(config.environment)))
            starting = start_process(config)
            # A second start with this option would move the state of the first one aside as well.
            config = config.model_copy(update={"begin_anew": False})
        elif state is None and starting is not None and starting.poll() is not None:
            break
        if is_first:
            on_wait()
            is_first = False
        await asyncio.sleep(0.1)
    log = config.data_dir / "logs" / LOG_NAME
    raise NotReadyError(f"The stack on {config.data_dir} did not become ready; the end of {log}:\n{tail(log)}")


async def serve(config: StackConfig, *, keeps: bool) -> None:
    """Run a stack until a signal; unless `keeps`, also until it has been unused for ten seconds."""
    async with Stack(config, on_event=_log_as(config.log_format)) as stack:
        watching = None if keeps else asyncio.create_task(_stop_when_unused(stack, config.data_dir))
        try:
            await stack.wait()
        finally:
            if watching is not None:
                watching.cancel()


async def _stop_when_unused(stack: Stack, data_dir: Path) -> None:
    unused_since: float | None = None
    while unused_since is None or time.monotonic() - unused_since < _UNUSED_SECONDS:
        await asyncio.sleep(_USE_LOOK_SECONDS)
        unused_since = None if _is_used(data_dir) else unused_since or time.monotonic()
    stack.ask_to_stop()


def _is_used(data_dir: Path) -> bool:
    with (data_dir / "users.lock").open("rb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def _log_as(log_format: str) -> OnEvent:
    def write(event: StackEvent) -> None:
        line = f"{event.component}: {event.message}"
        sys.stderr.write(f"{event.as_json() if log_format == 'json' else line}\n")

    return write


def main() -> int:
    """Run the stack. The exit code is 0 also if another stack uses the directory, unless this one is `--keep`."""
    config, keeps = StackConfig.model_validate_json(sys.argv[1]), "--keep" in sys.argv[2:]
    try:
        asyncio.run(serve(config, keeps=keeps))
    except DataDirectoryInUseError as error:
        if keeps:
            sys.stderr.write(f"{error}\n")
        return int(keeps)
    except StackError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
