"""A stack in a process of its own: started in the background, and stopped from another process."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import datetime
from pathlib import Path

import psutil

from outlast.deploy.local.config import StackConfig
from outlast.deploy.local.errors import NotReadyError, StackError
from outlast.deploy.local.plan import STOP_GRACE_SECONDS
from outlast.deploy.local.private_files import UMASK, private_data_dir, private_file, private_folder
from outlast.deploy.local.processes import tail
from outlast.deploy.local.state import StackState, find_running

LOG_NAME = "stack.log"
_LOOK_SECONDS = 0.1
_STOP_SECONDS = sum(STOP_GRACE_SECONDS.values()) + 15
_CLOCK_SECONDS = 5
"""A process that began later than this after `started_at` is not the one that wrote it: the kernel reused its id."""


def start_process(config: StackConfig, *options: str) -> "subprocess.Popen[bytes]":
    """Start the stack in a session of its own: a signal to this process's group does not reach it.

    Its output goes to `logs/stack.log`. Without options it ends when nobody uses it; with `--keep` when it is stopped.
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
    # It goes on without us. Where it ends first, it leaves no zombie, and Python has nothing to warn about.
    threading.Thread(target=process.wait, name="detached-stack", daemon=True).start()
    return process


async def start_detached(config: StackConfig) -> StackState:
    """Start a stack that goes on without this process; return when all of its parts are ready.

    Raises `NotReadyError` with the end of its log when it does not come up. A cancellation stops it.
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
    raise NotReadyError(tail(log, start=log_start) or f"The stack ended without a word. Log: {log}")


async def stop_running(data_dir: Path) -> StackState | None:
    """Stop the stack on this directory, in order; return what it was when it is gone, or None when none runs.

    Raises `StackError` when it does not end.
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
    """Whether the process with this id is the stack that wrote the state, not one that was given the same id later."""
    try:
        began = psutil.Process(state.pid).create_time()
    except psutil.NoSuchProcess:
        return False
    return began <= datetime.fromisoformat(state.started_at).timestamp() + _CLOCK_SECONDS
