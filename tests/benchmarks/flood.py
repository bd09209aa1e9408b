"""One caller floods 5,000 calls; how long another caller's quick call takes meanwhile, and without the flood."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System, running_system
from tests.support.eventually import eventually

_FLOOD, _QUICK = "flood-0123456789abcdef", "quick-0123456789abcdef"
_CALLS = 5_000
_CONNECTIONS = 64
_QUIET_CALLS = 200
_ROWS = [{"url": f"https://example.com/{number}", "title": f"Page {number}", "text": "x" * 180} for number in range(4)]
"""1 KB as JSON."""
_PATIENCE_SECONDS = 1_800.0
_P99_AT_MOST_MS = Target("at most", 2_000)


async def measure_flood() -> Finding:
    """Time quick calls alone; then while the flood comes in, and while its queue empties."""
    environment = {"OUTLAST_API_KEYS": f"flood:{_FLOOD},quick:{_QUICK}"}
    async with running_system(environment=environment) as system, system.caller(_QUICK) as quick:
        body = {"arguments": {"datasetId": await system.new_dataset(_ROWS)}}
        quiet = [await _milliseconds(quick, body) for _ in range(_QUIET_CALLS)]
        async with _calling(quick, body) as coming:
            began = time.monotonic()
            await _flood(system, body)
            came = time.monotonic() - began
        async with _calling(quick, body) as leaving:
            await eventually(lambda: _all_done(system), _PATIENCE_SECONDS, 1)
            left = time.monotonic() - began
    return Finding(
        "flood",
        (
            Figure("quick call alone, p50", statistics.median(quiet), "ms"),
            Figure("quick call alone, p99", _percentile99(quiet), "ms"),
            Figure("while the flood comes in, p50", statistics.median(coming), "ms"),
            Figure("while the flood comes in, p99", _percentile99(coming), "ms", _P99_AT_MOST_MS),
            Figure("while its queue empties, p50", statistics.median(leaving), "ms"),
            Figure("while its queue empties, p99", _percentile99(leaving), "ms", _P99_AT_MOST_MS),
            Figure("until all of the flood was taken", came, "s"),
            Figure("until all of it was done", left, "s"),
        ),
        {"calls": _CALLS, "connections": _CONNECTIONS, "quick calls": len(coming) + len(leaving)},
    )


@asynccontextmanager
async def _calling(quick: RestCaller, body: Any) -> AsyncGenerator[list[float]]:
    """Quick calls, one after the other, until the block ends; gives how long each took."""
    taken: list[float] = []
    ended = asyncio.Event()

    async def call() -> None:
        while not ended.is_set():
            taken.append(await _milliseconds(quick, body))

    calling = asyncio.create_task(call())
    try:
        yield taken
    finally:
        ended.set()
        await calling


async def _milliseconds(quick: RestCaller, body: Any) -> float:
    began = time.perf_counter()
    status, answer = await quick.post("/v1/tools/get-dataset-items/call", body)
    assert status == 200, answer
    return (time.perf_counter() - began) * 1000


async def _flood(system: System, body: Any) -> None:
    """Start the calls, over many connections at once, without waiting for any to end."""
    calls = iter(range(_CALLS))

    async def keep_starting(caller: RestCaller) -> None:
        for _ in calls:
            status, answer = await caller.post("/v1/tasks", {"tool": "get-dataset-items", **body})
            assert status == 201, answer

    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(system.caller(_FLOOD)) for _ in range(_CONNECTIONS)]
        await asyncio.gather(*(keep_starting(caller) for caller in callers))


async def _all_done(system: System) -> bool:
    counted = await system.temporal.count_workflows("OutlastCaller = 'key:flood' AND ExecutionStatus = 'Completed'")
    return counted.count == _CALLS


def _percentile99(values: list[float]) -> float:
    return statistics.quantiles(values, n=100)[-1]
