"""`kill -9` in the middle of calls that start paid runs: which of them end, and how many runs the platform started."""

import asyncio
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass

import httpx

from tests.benchmarks.peers.contract import Running
from tests.support.stacks.sandbox import Sandbox

_PACE_SECONDS = 0.1
"""A call begins this long after the one before it, so that the kill meets each phase of a call."""
START_SECONDS = 1.0
"""How long the platform takes to answer a start: it has accepted the run by then. Apify's takes about as long."""
RUN_SECONDS = 15.0
_START_PATH = "/v2/act(or)?s/[^/]+/runs$"
_ASK_SECONDS = 0.5
_RUNS_READ_AT_ONCE = 1_000


@dataclass(frozen=True)
class Survival:
    """What became of calls that were in flight when the process that executed them was killed."""

    calls: int
    accepted_starts_at_the_kill: int
    completed: int
    failed: int
    """Ended with an error."""
    lost: int
    """Neither, within the time that was waited."""
    started_twice: int
    """Calls with more than one run on the platform: each is paid twice."""
    starts: int
    seconds: float
    """From the kill until the last call that completed had done so."""


async def survival(running: Running, *, calls: int, patience_seconds: float) -> Survival:
    """Have so many calls in flight, kill, and wait until all have ended, or for so long."""
    running.sandbox.order_fault("delay_after", path=_START_PATH, method="POST", seconds=START_SECONDS)
    starting = [asyncio.create_task(_started(running, number)) for number in range(calls)]
    await asyncio.sleep(calls * _PACE_SECONDS)
    accepted = running.sandbox.counters["startsAccepted"]
    running.kill()
    tickets = await asyncio.gather(*starting)
    ends, seconds = await _ends(running, tickets, patience_seconds)
    starts = await _starts(running.sandbox)
    return Survival(
        calls=calls,
        accepted_starts_at_the_kill=accepted,
        completed=sum(ends.values()),
        failed=sum(not well for well in ends.values()),
        lost=calls - len(ends),
        started_twice=sum(number > 1 for number in starts.values()),
        starts=starts.total(),
        seconds=seconds,
    )


async def _started(running: Running, number: int) -> str:
    """A front that was killed before it accepted the call is asked again, for the same call."""
    await asyncio.sleep(number * _PACE_SECONDS)
    while True:
        with suppress(OSError, EOFError):
            async with running.connection() as connection:
                return await connection.start_run(f"call-{number}", RUN_SECONDS)
        await asyncio.sleep(_PACE_SECONDS)


async def _ends(running: Running, tickets: list[str], patience_seconds: float) -> tuple[dict[str, bool], float]:
    """Whether each call that has ended did so well, and after how many seconds the last good one was there."""
    began = time.monotonic()
    ends: dict[str, bool] = {}
    last = 0.0
    while len(ends) < len(tickets) and time.monotonic() < began + patience_seconds:
        for ticket in tickets:
            ended = None if ticket in ends else await _ended(running, ticket)
            if ended is not None:
                ends[ticket] = ended
                last = time.monotonic() - began if ended else last
        await asyncio.sleep(_ASK_SECONDS)
    return ends, last


async def _ended(running: Running, ticket: str) -> bool | None:
    """None also while the front is away, if it was killed too."""
    with suppress(OSError, EOFError, AssertionError):
        async with running.connection() as connection:
            return await connection.has_ended(ticket)
    return None


async def _starts(sandbox: Sandbox) -> Counter[str]:
    """How many runs the platform has started for each call: a run's input names its call."""
    headers = {"Authorization": f"Bearer {sandbox.token}"}
    async with httpx.AsyncClient(base_url=sandbox.url, headers=headers, trust_env=False, timeout=30) as http:
        listed = await http.get("/v2/acts/outlast~sleeper/runs", params={"limit": _RUNS_READ_AT_ONCE})
        runs = listed.raise_for_status().json()["data"]["items"]
        stores = [run["defaultKeyValueStoreId"] for run in runs]
        inputs = [await http.get(f"/v2/key-value-stores/{store}/records/INPUT") for store in stores]
    return Counter(answer.raise_for_status().json()["message"] for answer in inputs)
