"""The side of the server: everything loaded, no thread started, and a fork for each command that asks for one."""

import fcntl
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import typer

from outlast.cli.commands.mcp import load_server
from outlast.cli.fork_server.asking import mark_as_fork
from outlast.cli.fork_server.protocol import (
    GO,
    LOCK_NAME,
    READY,
    SOCKET_NAME,
    STREAMS,
    Request,
    close_all,
    is_own_user,
    receive_request,
    socket_path,
)
from outlast.cli.main import command_line, exit_code_of
from outlast.deploy.local.state import find_running
from outlast.loading import loading
from outlast.paths import keep_files_private

log = logging.getLogger("outlast.fork_server")

_LOOK_SECONDS = 2.0
_STACKLESS_SECONDS = 10.0
_REQUEST_SECONDS = 2.0
_MOST_WAITING = 16


def serve(data_dir: Path, code: str) -> int:
    """Serve until no stack has run on the directory for ten seconds. Exit code 0 also where another one serves."""
    keep_files_private()
    with _only_one(data_dir) as lock:
        if lock is None:
            return 0
        with loading():
            load_server()
            app = command_line(["mcp"])
        if len(list(Path("/proc/self/task").iterdir())) > 1:
            # A thread's locks would be held for ever in a fork.
            raise RuntimeError("A module has started a thread; commands go on without a fork server.")
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a fork has ended
        with _listening(data_dir) as listener:
            return _ForkServer(data_dir, code, app, lock, listener).run()


@contextmanager
def _only_one(data_dir: Path) -> Generator[int | None]:
    lock = os.open(data_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        is_only = True
    except BlockingIOError:
        is_only = False
    try:
        yield lock if is_only else None
    finally:
        os.close(lock)


@contextmanager
def _listening(data_dir: Path) -> Generator[socket.socket]:
    file = data_dir / SOCKET_NAME
    file.unlink(missing_ok=True)  # of one that was killed
    with socket.socket(socket.AF_UNIX) as listener:
        with socket_path(data_dir) as path:
            listener.bind(path)
        listener.listen(_MOST_WAITING)
        listener.settimeout(_LOOK_SECONDS)
        try:
            yield listener
        finally:
            file.unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class _ForkServer:
    data_dir: Path
    code: str
    app: typer.Typer
    lock: int
    listener: socket.socket

    def run(self) -> int:
        """Fork for each request. Ends when the stack is gone, or at a request of newer code."""
        last_used = time.monotonic()
        is_current = True
        while is_current and time.monotonic() - last_used < _STACKLESS_SECONDS:
            try:
                connection, _ = self.listener.accept()
            except TimeoutError:
                pass
            else:
                with connection:
                    is_current = self._fork_for(connection)
            if find_running(self.data_dir) is not None:
                last_used = time.monotonic()
        return 0

    def _fork_for(self, connection: socket.socket) -> bool:
        """Fork for what the connection asks. False when it was asked by other code than this."""
        connection.settimeout(_REQUEST_SECONDS)
        if not is_own_user(connection):
            return True
        try:
            request, streams = receive_request(connection)
        except (OSError, ValueError) as error:
            log.warning("A request was not understood: %s", error)
            return True
        try:
            if request.code != self.code:
                return False
            if os.fork() == 0:
                self.listener.close()
                os.close(self.lock)
                _carry_out(connection, request, streams, self.app)
        finally:
            close_all(streams)
        return True


def _carry_out(connection: socket.socket, request: Request, streams: list[int], app: typer.Typer) -> NoReturn:
    """In the fork: become the command. The process ends here, whatever happens."""
    try:
        _take_over(request, streams)
        connection.sendall(READY)
        if connection.recv(1) != GO:
            os._exit(1)  # it did not wait so long, and does the work itself
        connection.settimeout(None)
        threading.Thread(target=_obey, args=(connection,), daemon=True).start()
        code = exit_code_of(app) & 0xFF
        connection.sendall(bytes([code]))
        os._exit(code)
    except Exception:
        log.exception("The command has failed")
    finally:
        os._exit(1)


def _take_over(request: Request, streams: list[int]) -> None:
    for number, given in zip(STREAMS, streams, strict=True):
        os.dup2(given, number)
        os.close(given)
    os.chdir(request.directory)
    os.environ.clear()
    os.environ.update(request.environment)
    time.tzset()
    sys.argv, sys.path[:] = request.arguments, request.path
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    mark_as_fork()


def _obey(connection: socket.socket) -> None:
    """Get the signals of the command's own process, and end when it has ended."""
    while number := connection.recv(1):
        os.kill(os.getpid(), number[0])
    os._exit(1)
