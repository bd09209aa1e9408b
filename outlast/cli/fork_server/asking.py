"""The side of the command: have it carried out by a fork, or leave a fork server behind for the next one."""

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from outlast.cli.fork_server.protocol import (
    GO,
    LOCK_NAME,
    READY,
    Request,
    is_own_user,
    own_code,
    send_request,
    socket_path,
)
from outlast.deploy.local.private_files import private_file, private_folder

_ANSWER_SECONDS = 2.0
"""A fork that is not there by then is not waited for: the command does the work itself."""
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OF_REQUESTS = re.compile("OUTLAST_|APIFY_|TEMPORAL_|OTEL_|.*(KEY|TOKEN|SECRET|PASSWORD)")
"""Variables that come with each request; the server itself is not to hold one client's credentials."""
LOG_NAME = "fork-server.log"
_is_fork = False


def mark_as_fork() -> None:
    """Say that this process is the fork, which carries its command out."""
    global _is_fork  # noqa: PLW0603 (of the process, as its id is)
    _is_fork = True


def carried_out_by_fork(data_dir: Path) -> int | None:
    """The exit code of this command line, which a fork of the directory's fork server has carried out.

    None when there is no such server: nothing was read from standard input then, and nothing written. A terminal is not
    passed on: only processes of its session can read it.
    """
    if sys.platform != "linux" or _is_fork or sys.stdin is None or sys.stdin.isatty():  # pyright: ignore[reportUnnecessaryComparison]
        return None
    with socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.settimeout(_ANSWER_SECONDS)
            with socket_path(data_dir) as path:
                connection.connect(path)
            if not is_own_user(connection):
                return None
            send_request(connection, _own_request())
            if connection.recv(1) != READY:
                return None
        except OSError:
            return None
        return _exit_code(connection)


def leave_fork_server(data_dir: Path) -> None:
    """Start the directory's fork server, for those who come after this process; harmless where one runs."""
    if sys.platform != "linux" or _is_fork:
        return
    with private_file(private_folder(data_dir / "logs") / LOG_NAME, "ab") as output:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "outlast.cli.fork_server", str(data_dir.resolve())],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd="/",
            env={name: value for name, value in os.environ.items() if not _OF_REQUESTS.match(name)},
            start_new_session=True,
        )
    # As with a detached stack: where it ends first, it leaves no zombie.
    threading.Thread(target=process.wait, name="fork-server", daemon=True).start()


def prepare_for_clients(data_dir: Path) -> None:
    """Start the fork server of a new stack for its first client, if `outlast mcp` has been used on the directory.

    The stack goes on without one where it cannot be started: it only saves a client's time.
    """
    if (data_dir / LOCK_NAME).exists():
        with suppress(OSError):
            leave_fork_server(data_dir)


def _own_request() -> Request:
    return Request(own_code(), sys.argv, str(Path.cwd()), dict(os.environ), sys.path)


def _exit_code(connection: socket.socket) -> int:
    """Let the fork begin, pass signals on, and wait for its end."""
    connection.settimeout(None)
    with _signals_to(connection) as sent:
        try:
            connection.sendall(GO)
            end = connection.recv(1)
        except OSError:
            end = b""
    if end:
        return end[0]
    return 128 + sent[-1] if sent else 1  # it was killed


@contextmanager
def _signals_to(connection: socket.socket) -> Generator[list[int]]:
    sent: list[int] = []

    def pass_on(number: int, _frame: object) -> None:
        sent.append(number)
        try:
            connection.sendall(bytes([number]))
        except OSError:
            return  # it has just ended

    before = {number: signal.signal(number, pass_on) for number in _PASSED_ON}
    try:
        yield sent
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
