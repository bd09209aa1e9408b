"""The fork server beside a stack: what becomes of either without the other."""

import fcntl
import sys
from pathlib import Path

import psutil
import pytest

from outlast.cli.fork_server.asking import prepare_for_clients
from outlast.cli.fork_server.protocol import LOCK_NAME
from tests.support.eventually import eventually


def test_a_stack_goes_on_without_a_fork_server(tmp_path: Path) -> None:
    (tmp_path / LOCK_NAME).touch()
    (tmp_path / "logs").touch()  # no folder: its log cannot be written
    prepare_for_clients(tmp_path)


@pytest.mark.skipif(sys.platform != "linux", reason="there is no fork server elsewhere")
async def test_a_fork_server_that_ends_before_its_stack_leaves_no_zombie(tmp_path: Path) -> None:
    """It ends at once where another one has the directory."""
    before = set(psutil.Process().children())
    with (tmp_path / LOCK_NAME).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        prepare_for_clients(tmp_path)
        (server,) = set(psutil.Process().children()) - before
        await eventually(lambda: not psutil.pid_exists(server.pid))
