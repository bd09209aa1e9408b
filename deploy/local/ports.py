"""TCP ports of a stack's processes.

A port that the user chose is used or refused, never replaced. A default port that is taken is replaced by the port of
the last stack on this data directory, or else by any free port.
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
"""Below the ports that Linux uses for outgoing connections, which could take a server's port while the server starts
(and a client that tries to reach it could connect to itself)."""
_TRIES = 1000


def is_free(host: str, port: int) -> bool:
    """Return whether a server could listen on this port now."""
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
    """Return a random free port, so that stacks that start at the same time do not select the same one."""
    for port in random.sample(_PICKED_FROM, _TRIES):
        if is_free(host, port):
            return port
    raise PortTakenError(f"No free port was found on {host} between {_PICKED_FROM.start} and {_PICKED_FROM.stop}.")


@dataclass(frozen=True, slots=True)
class PortWish:
    """Port that a process needs: its purpose, the setting that selects another one, and the preferred numbers."""

    purpose: str
    setting: str
    default: int
    requested: int | None = None
    previous: int | None = None


class PortPicker:
    """Selects ports for one stack, never the same one twice."""

    def __init__(self, host: str, on_change: Callable[[PortWish, int], None]) -> None:
        self._host = host
        self._on_change = on_change
        self._given: set[int] = set()

    def pick(self, wish: PortWish, host: str | None = None) -> int:
        """Return a port that is free now; any free port if 0 was requested.

        Raises `PortTakenError` if a port was requested by number and is in use.
        """
        host = host or self._host
        candidates = (wish.default, wish.previous) if wish.requested is None else (wish.requested,)
        port = next((port for port in candidates if port and port not in self._given and is_free(host, port)), None)
        if port is None and wish.requested:
            raise PortTakenError(
                f"Port {wish.requested} on {host}, selected as the {wish.purpose} port, is already in use. Stop the "
                f"program that listens there (`ss -ltnp 'sport = :{wish.requested}'` names it), select another port "
                f"with {wish.setting}, or omit {wish.setting} to use a free port."
            )
        while port is None or port in self._given:
            port = any_free(host)
        if wish.requested is None and port != wish.default:
            self._on_change(wish, port)
        self._given.add(port)
        return port
