"""The small call, by one caller and by many."""

import asyncio
import statistics
import time
from dataclasses import dataclass

from tests.benchmarks.peers.contract import CALLERS, Connection, Running

ROWS = [{"url": f"https://example.com/{number}", "title": f"Page {number}", "text": "x" * 180} for number in range(4)]
"""1 KB as JSON."""
_FEWER = 4
"""A peer that fails calls of many callers is asked by this part of them."""
_PATIENCE_SECONDS = 20.0
"""A call that takes longer has failed."""


@dataclass(frozen=True)
class Rate:
    """What many callers got, each making one call after the other."""

    callers: int
    calls_per_second: float
    failed: int


async def milliseconds(running: Running, dataset_id: str, *, warm_up: int, calls: int) -> list[float]:
    """How long each call of one caller took, without the first `warm_up`."""
    async with running.connection() as connection:
        taken = [await _call(connection, dataset_id) for _ in range(warm_up + calls)]
    return taken[warm_up:]


async def rate(running: Running, dataset_id: str, *, seconds: float, callers: int = CALLERS) -> Rate:
    """Keep callers calling until the time is up: so many, or as many as the peer takes without failing a call."""
    rates = [await _rate(running, dataset_id, seconds, callers)]
    while rates[-1].failed and rates[-1].callers > 1:
        rates.append(await _rate(running, dataset_id, seconds, rates[-1].callers // _FEWER))
    return rates[-1]


async def _rate(running: Running, dataset_id: str, seconds: float, callers: int) -> Rate:
    """Each caller makes a call first; calls that have begun are waited for."""
    failed = sum(failed for _, failed in await _all_callers(running, dataset_id, callers, 0))
    if failed and callers > 1:
        return Rate(callers, 0, failed)
    began = time.perf_counter()
    counts = await _all_callers(running, dataset_id, callers, seconds)
    taken = time.perf_counter() - began
    return Rate(callers, sum(made for made, _ in counts) / taken, sum(failed for _, failed in counts))


async def _all_callers(running: Running, dataset_id: str, callers: int, seconds: float) -> list[tuple[int, int]]:
    end = time.perf_counter() + seconds
    return await asyncio.gather(*(_keep_calling(running, dataset_id, end) for _ in range(callers)))


def percentile95(values: list[float]) -> float:
    """The value that one in twenty exceeds."""
    return statistics.quantiles(values, n=20)[-1]


async def _keep_calling(running: Running, dataset_id: str, end: float) -> tuple[int, int]:
    """Calls that were answered, and calls that were not; at least one. After a failure the caller connects anew."""
    made = failed = 0
    while not made + failed or time.perf_counter() < end:
        try:
            async with running.connection() as connection:
                while not made or time.perf_counter() < end:
                    await asyncio.wait_for(_call(connection, dataset_id), _PATIENCE_SECONDS)
                    made += 1
        except (AssertionError, OSError, EOFError, TimeoutError, ValueError):
            failed += 1
    return made, failed


async def _call(connection: Connection, dataset_id: str) -> float:
    began = time.perf_counter()
    rows = await connection.read_rows(dataset_id)
    assert rows == len(ROWS), rows
    return (time.perf_counter() - began) * 1000
