"""Which TCP ports a stack's processes listen on.

A port that somebody asked for is used or refused, never replaced. A default that is taken gives way to the port
that the last stack on this data directory used, and then to any free one.
"""

import random
import socket
from collections.abc import Callable
from dataclasses import dataclass

from outlast.deploy.local.errors import PortTakenError

API = 8400
SANDBOX = 8401
WORKER_METRICS = 8402
TEMPORAL = 7233
TEMPORAL_HTTP = 7243
TEMPORAL_METRICS = 7253
TEMPORAL_UI = 8233

_PICKED_FROM = range(20_000, 32_000)
"""Below the ports that Linux gives to outgoing connections: one of those could take a server's port while the server is
being started or restarted (and a client that tries to reach it could connect to itself)."""
_TRIES = 1000


def is_free(host: str, port: int) -> bool:
    """Whether a server could listen on this port now."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def any_free(host: str) -> int:
    """Return a free port, by chance, so that stacks that start at the same time do not meet."""
    for port in random.sample(_PICKED_FROM, _TRIES):
        if is_free(host, port):
            return port
    raise PortTakenError(f"No free port was found on {host} between {_PICKED_FROM.start} and {_PICKED_FROM.stop}.")


@dataclass(frozen=True, slots=True)
class PortWish:
    """One process's need for a port: what for, how to ask for another one, and what it would like."""

    purpose: str
    setting: str
    default: int
    requested: int | None = None
    previous: int | None = None


class PortPicker:
    """Picks ports for one stack, never the same one twice."""

    def __init__(self, host: str, on_change: Callable[[PortWish, int], None]) -> None:
        self._host = host
        self._on_change = on_change
        self._given: set[int] = set()

    def pick(self, wish: PortWish, host: str | None = None) -> int:
        """Return a port that is free now; any one where 0 was asked for.

        Raises `PortTakenError` when the port was asked for by number and is in use.
        """
        host = host or self._host
        if wish.requested is not None:
            return self._give(self._requested(wish.requested, wish, host) if wish.requested else self._any_other(host))
        for candidate in (wish.default, wish.previous):
            if candidate and self._usable(host, candidate):
                break
        else:
            candidate = self._any_other(host)
        if candidate != wish.default:
            self._on_change(wish, candidate)
        return self._give(candidate)

    def _requested(self, port: int, wish: PortWish, host: str) -> int:
        if self._usable(host, port):
            return port
        raise PortTakenError(
            f"Port {port} on {host}, asked for as the {wish.purpose} port, is already in use. Stop what listens there "
            f"(`ss -ltnp 'sport = :{port}'` names it), choose another with {wish.setting}, or leave {wish.setting} out "
            "and a free port is picked."
        )

    def _usable(self, host: str, port: int) -> bool:
        return port not in self._given and is_free(host, port)

    def _any_other(self, host: str) -> int:
        while (port := any_free(host)) in self._given:
            pass
        return port

    def _give(self, port: int) -> int:
        self._given.add(port)
        return port
