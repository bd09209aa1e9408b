"""Checks before a stack starts anything."""

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import psutil

from outlast.deploy.local.errors import StackError
from outlast.deploy.local.outside import Outside
from outlast.deploy.local.processes.readiness import accepts_tcp
from outlast.deploy.local.state import StackState
from outlast.disk_space import DEFAULT_RESERVE_MBYTES, RESERVE_VARIABLE, shortage, written_places

OUTSIDE_TIMEOUT_SECONDS = 10.0
LEFTOVERS_TIMEOUT_SECONDS = 5.0


async def check_temporal(outside: Outside) -> None:
    """Raise `StackError` when the user's own Temporal server cannot be reached."""
    if outside.temporal_address is None:
        return
    host, _, port = outside.temporal_address.rpartition(":")
    if not port.isdigit():
        raise StackError(f"TEMPORAL_ADDRESS must read host:port, not {outside.temporal_address!r}.")
    probe = accepts_tcp(host.strip("[]"), int(port))
    deadline = time.monotonic() + OUTSIDE_TIMEOUT_SECONDS
    while not await probe():
        if time.monotonic() > deadline:
            raise StackError(
                f"Temporal at {outside.temporal_address} (TEMPORAL_ADDRESS or your Temporal profile) cannot be "
                "reached. Start it, correct the address, or unset it to use the embedded server."
            )
        await asyncio.sleep(0.2)


def check_disk(data_dir: Path, environment: Mapping[str, str]) -> None:
    """Raise `StackError` when the API would not become ready for want of disk space."""
    reserve = environment.get(RESERVE_VARIABLE) or str(DEFAULT_RESERVE_MBYTES)
    audit = environment.get("OUTLAST_AUDIT_FILE")
    places = written_places(data_dir, environment.get("OUTLAST_STORE_URL"), audit if audit != "-" else None)
    found = shortage(places, int(reserve) * 1_000_000) if reserve.isdecimal() else None
    if found is not None:
        raise StackError(found)


async def await_leftovers(state: StackState | None) -> None:
    """Wait for children of a killed stack to be gone (the kernel ends them), so that their ports are free again."""
    pids = list(state.children.values()) if state else []
    deadline = time.monotonic() + LEFTOVERS_TIMEOUT_SECONDS
    while any(_is_alive(pid) for pid in pids) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)


def _is_alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
