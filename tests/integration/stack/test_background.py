"""A stack in the background: started, found and stopped from other processes."""

import asyncio
import fcntl
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from outlast.deploy.local.config import Component, StackConfig
from outlast.deploy.local.errors import NotReadyError
from outlast.deploy.local.shared_stack import start_detached, stop_running, used_stack
from outlast.deploy.local.state import StackAddresses, StackState, find_running, write_state
from tests.support.eventually import eventually
from tests.support.stacks.stack_config import free_ports_config, is_running, stand_in


def api_config(data_dir: Path, *options: str) -> StackConfig:
    """A stack whose only part is a stand-in for the API."""
    return free_ports_config(data_dir, Component.API, commands={Component.API: stand_in("OUTLAST_API_PORT", *options)})


async def test_a_detached_stack_is_ready_when_the_start_returns_and_gone_when_it_was_stopped(tmp_path: Path) -> None:
    state = await start_detached(api_config(tmp_path))
    try:
        assert state.is_ready
        assert state.pid != os.getpid()
        assert is_running(state.children["api"])
    finally:
        stopped = await stop_running(tmp_path)
    assert stopped is not None
    assert stopped.pid == state.pid
    assert not is_running(state.children["api"])
    assert find_running(tmp_path) is None
    await eventually(lambda: not psutil.pid_exists(state.pid))  # nor does it stay behind as a zombie of who started it


async def test_where_no_stack_runs_there_is_nothing_to_stop(tmp_path: Path) -> None:
    assert await stop_running(tmp_path) is None


async def test_a_detached_stack_that_does_not_come_up_says_why(tmp_path: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(NotReadyError, match="I was told to fail"):
        await start_detached(api_config(tmp_path, "--fail-while", str(tmp_path / "broken")))
    assert find_running(tmp_path) is None


async def test_a_second_detached_stack_is_told_who_has_the_directory(tmp_path: Path) -> None:
    state = await start_detached(api_config(tmp_path))
    try:
        with pytest.raises(NotReadyError, match=f"in use by another stack: process {state.pid}"):
            await start_detached(api_config(tmp_path))
        assert is_running(state.pid)
    finally:
        os.kill(state.pid, signal.SIGTERM)
        await eventually(lambda: find_running(tmp_path) is None)


async def test_who_joins_a_stack_that_is_just_stopping_gets_a_new_one(tmp_path: Path) -> None:
    """Its API does not answer any more, and holds its end up."""
    config = api_config(tmp_path)
    old = await start_detached(config)
    api = psutil.Process(old.children["api"])
    api.suspend()
    async with AsyncExitStack() as used:
        joining = asyncio.create_task(used.enter_async_context(used_stack(config)))
        await asyncio.sleep(0)
        assert not joining.done()
        os.kill(old.pid, signal.SIGTERM)
        addresses = await joining
        new = find_running(tmp_path)
        assert new is not None
        assert (new.pid != old.pid, new.addresses) == (True, addresses)
        await eventually(lambda: not is_running(old.pid))  # it gives the directory up shortly before it ends
        assert await stop_running(tmp_path) is not None


async def test_what_is_to_be_done_while_a_stack_starts_is_done_once_after_it_was_started(tmp_path: Path) -> None:
    config, started = api_config(tmp_path), list[list[int]]()

    def meanwhile() -> None:
        started.append([each.pid for each in psutil.process_iter() if str(tmp_path) in " ".join(_command(each))])

    async with used_stack(config, meanwhile) as addresses:
        state = find_running(tmp_path)
        assert state is not None
        assert state.addresses == addresses
        assert [state.pid in pids for pids in started] == [True]
        async with used_stack(config, meanwhile) as joined:
            assert joined == addresses
        assert len(started) == 1, "who joins a stack that is ready waits for nothing"
        os.kill(state.pid, signal.SIGTERM)
    await eventually(lambda: find_running(tmp_path) is None)


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@pytest.fixture
def bystander() -> Iterator["subprocess.Popen[bytes]"]:
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    yield process
    process.kill()
    process.communicate()


async def test_a_process_that_was_given_the_id_of_a_stack_later_is_not_stopped(
    tmp_path: Path, bystander: "subprocess.Popen[bytes]"
) -> None:
    an_hour_ago = (datetime.now(UTC) - timedelta(hours=1)).isoformat()
    state = StackState(pid=bystander.pid, started_at=an_hour_ago, addresses=StackAddresses(), parts={}, ports={})
    write_state(tmp_path, state)
    lock = os.open(tmp_path / "stack.lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stopping = asyncio.create_task(stop_running(tmp_path))
        await asyncio.sleep(0)
        assert not stopping.done()
    finally:
        os.close(lock)
    assert await stopping == state
    assert bystander.poll() is None
