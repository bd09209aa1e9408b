"""How to see that a process is ready: by asking it, never by waiting a while."""

import asyncio
from collections.abc import Awaitable, Callable

import httpx

Probe = Callable[[], Awaitable[bool]]
"""Asks a process once whether it is ready; False for "not yet"."""

_PROBE_TIMEOUT_SECONDS = 2.0


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
            async with httpx.AsyncClient(trust_env=False, timeout=_PROBE_TIMEOUT_SECONDS) as client:
                return (await client.get(url)).is_success
        except httpx.HTTPError:
            return False

    return probe


def every(*probes: Probe) -> Probe:
    """Ready when all of them say so."""

    async def probe() -> bool:
        return all([await one() for one in probes])

    return probe
