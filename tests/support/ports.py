"""Ports for the tests' servers: no other test process on this machine is given the same one.

A port that is free now may be taken before the server that it was chosen for listens on it. Each test process therefore
owns blocks of ports. It listens on the first port of a block for as long as it lives, which the kernel allows only one
process to do, and gives out the others, each of them once.
"""

import atexit
import random
import socket
from collections.abc import Iterator

from outlast.deploy.local.ports import is_free

_LOOPBACK = "127.0.0.1"
_BLOCK_SIZE = 100
_BLOCKS = range(10_000, 20_000, _BLOCK_SIZE)
"""Below the ports that stacks choose by themselves, and below those that Linux gives to outgoing connections."""


def free_port() -> int:
    """Return a port of the loopback address that nothing listens on."""
    return next(_ports)


def free_address() -> str:
    """Return the HTTP address of such a port: nothing answers there until a server is started on it."""
    return f"http://{_LOOPBACK}:{free_port()}"


def _owned_ports() -> Iterator[int]:
    for first in random.sample(_BLOCKS, len(_BLOCKS)):
        if _hold(first):
            yield from (port for port in range(first + 1, first + _BLOCK_SIZE) if is_free(_LOOPBACK, port))
    raise RuntimeError(f"No port is left between {_BLOCKS.start} and {_BLOCKS.stop}.")


def _hold(port: int) -> bool:
    """Listen on `port` until this process ends; False when another process does."""
    holder = socket.socket()
    try:
        holder.bind((_LOOPBACK, port))
        holder.listen(1)
    except OSError:
        holder.close()
        return False
    atexit.register(holder.close)
    return True


_ports = _owned_ports()
