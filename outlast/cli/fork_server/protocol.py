"""The protocol between a command and the fork server of its data directory, over a Unix socket.

The command sends a `Request` and its standard streams; the fork answers READY, gets GO, and from then on the streams
are its own. The command passes its signals on, one byte each; the last byte of the fork is its exit code.
"""

import json
import os
import socket
import struct
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import outlast

SOCKET_NAME = "fork_server.sock"
LOCK_NAME = "fork_server.lock"
"""Held by the fork server. The file stays, and tells stacks on the directory that `outlast mcp` is used there."""
READY, GO = b"R", b"G"
STREAMS = (0, 1, 2)
_LENGTH = struct.Struct("!I")
_CREDENTIALS = struct.Struct("3i")


@dataclass(frozen=True, slots=True)
class Request:
    """A command line, and what it would find in a process of its own."""

    code: str
    arguments: list[str]
    directory: str
    environment: dict[str, str]
    path: list[str]
    """`sys.path`: the user's own tools are found there."""


def own_code() -> str:
    """Names the installation that this process runs, with the moment at which it was installed."""
    file = Path(str(outlast.__file__)).resolve()
    return f"{file} {file.stat().st_mtime_ns}"


@contextmanager
def socket_path(data_dir: Path) -> Generator[str]:
    """The socket's path in few characters: the kernel takes 107 of them."""
    descriptor = os.open(data_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{SOCKET_NAME}"
    finally:
        os.close(descriptor)


def is_own_user(connection: socket.socket) -> bool:
    """Whether this user's process is at the other end: requests contain credentials, and are obeyed."""
    _, user, _ = _CREDENTIALS.unpack(connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return user == os.geteuid()


def send_request(connection: socket.socket, request: Request) -> None:
    """Send the request and this process's standard streams. Raises `OSError`."""
    body = json.dumps(asdict(request)).encode()
    socket.send_fds(connection, [_LENGTH.pack(len(body))], STREAMS)
    connection.sendall(body)


def receive_request(connection: socket.socket) -> tuple[Request, list[int]]:
    """The request, and the descriptors of the streams. Raises `OSError` and `ValueError`."""
    head, streams, _, _ = socket.recv_fds(connection, _LENGTH.size, len(STREAMS))
    (left,) = _LENGTH.unpack(head) if len(head) == _LENGTH.size else (0,)
    body = b""
    while left > len(body) and (piece := connection.recv(left - len(body))):
        body += piece
    try:
        if len(streams) != len(STREAMS):
            raise ValueError("The request has no standard streams.")
        return Request(**json.loads(body)), streams
    except (TypeError, ValueError) as error:
        close_all(streams)
        raise ValueError(f"No request: {error}") from error


def close_all(descriptors: list[int]) -> None:
    """Close them."""
    for descriptor in descriptors:
        os.close(descriptor)
