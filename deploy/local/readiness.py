"""How the stack sees that a process is ready: by asking it, and by proof that the answer is its own.

A port that answers proves nothing: another program may have taken it. So a process is ready only when its own process
id holds the ports that it serves, or is in the ready file that it writes.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import httpx
import psutil
from pydantic import BaseModel, ValidationError

Probe = Callable[[], Awaitable[bool]]
"""Asks a process once whether it is ready; False for "not yet"."""

_PROBE_TIMEOUT_SECONDS = 2.0
_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""Probes speak plain HTTP. Without it each would read all certificates of the machine, which takes 15 ms of a core."""


def accepts_tcp(host: str, port: int) -> Probe:
    """Ready when something accepts connections there."""

    async def probe() -> bool:
        try:
            async with asyncio.timeout(_PROBE_TIMEOUT_SECONDS):
                _, writer = await asyncio.open_connection(host, port)
        except (OSError, TimeoutError):
            return False
        writer.close()
        return True

    return probe


def answers_http(url: str) -> Probe:
    """Ready when the address answers with a 2xx status."""

    async def probe() -> bool:
        try:
            # trust_env off: a proxy meant for the outside world must not stand before loopback.
            async with httpx.AsyncClient(trust_env=False, timeout=_PROBE_TIMEOUT_SECONDS, verify=_NO_TLS) as client:
                return (await client.get(url)).is_success
        except httpx.HTTPError:
            return False

    return probe


def every(*probes: Probe) -> Probe:
    """Ready when all of them say so."""

    async def probe() -> bool:
        return all([await one() for one in probes])

    return probe


async def always() -> bool:
    """Ready without being asked, for a process whose ready file says it all."""
    return True


def holds_ports(pid: int, ports: Sequence[int]) -> bool:
    """Whether this process, or one that it started, listens on all of these TCP ports.

    True also where the system does not let us see that.
    """
    listening: set[int] = set()
    try:
        leader = psutil.Process(pid)
        for process in (leader, *leader.children(recursive=True)):
            connections = process.net_connections(kind="tcp")
            listening |= {entry.laddr.port for entry in connections if entry.status == psutil.CONN_LISTEN}
    except psutil.NoSuchProcess:
        return False
    except psutil.AccessDenied:
        return True
    return listening.issuperset(ports)


class ReadyFile(BaseModel):
    """What the stack reads in a ready file (`OUTLAST_READY_FILE`, `outlast.worker.ready_file` writes it)."""

    pid: int
    metrics_url: str | None = None
    """Where it serves its Prometheus metrics, None when it serves none."""


def read_ready_file(path: Path) -> ReadyFile | None:
    """Return what the file says; None while there is none."""
    try:
        return ReadyFile.model_validate_json(path.read_bytes())
    except (FileNotFoundError, ValidationError):
        return None
