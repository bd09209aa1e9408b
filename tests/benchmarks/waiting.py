"""10,000 Actor calls waiting at once on one worker: all answered, one run each, and what one waiting run costs."""

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import httpx

from outlast.deploy.local.config import Component
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.system import System, TemporalCounts, running_system
from tests.support.eventually import eventually

_CALLS = 10_000
_AT_ONCE = 32
_WARM_UP = 100
_SECONDS = 900
"""All runs end so long after the first call, so that all answers are due at once. By then all must have started."""
_WINDOW_SECONDS = 60
_LOOK_SECONDS = 5
_ASK_AGAIN_SECONDS = 5
_MOST_MIB = 2_048
_SLEEPER = "outlast/sleeper"
# As docs/performance.md advises for thousands of runs on the embedded server: with 60, heartbeats keep it busy.
_SETTINGS = {"OUTLAST_RUN_HEARTBEAT_SECONDS": "300"}


async def measure_waiting() -> Finding:
    """Start the calls, look at the worker when all wait, collect all results, and ask the platform what it has run."""
    runs_at_once = _CALLS + _WARM_UP
    async with (
        running_system(in_process=(_SLEEPER,), runs_at_once=runs_at_once, environment=_SETTINGS) as system,
        _client(system) as http,
    ):
        await _each(http, [1.0] * _WARM_UP, _whole_call)
        memory_before = system.memory_bytes(Component.WORKER)
        began = time.monotonic()
        end = began + _SECONDS
        tasks: list[str] = await _each(http, [end] * _CALLS, _started_until)
        waiting = await eventually(lambda: _all_run(system, end), _SECONDS, _LOOK_SECONDS)
        all_started, before = time.monotonic() - began, await system.temporal_counts()
        await asyncio.sleep(_WINDOW_SECONDS)
        after, memory = await system.temporal_counts(), system.memory_bytes(Component.WORKER)
        await asyncio.sleep(end - time.monotonic())
        succeeded = await _each(http, tasks, _succeeded)
        last_answer = time.monotonic() - end
        counters = await system.sandbox_counters()
    runs = [len(runs) for runs in counters["operations"].values()]
    figures = (
        Figure("runs waited for at once", waiting, "runs", Target("exactly", _CALLS)),
        Figure("calls answered with what the run produced", sum(succeeded), "calls", Target("exactly", _CALLS)),
        Figure("runs started", counters["startsAccepted"] - _WARM_UP, "runs", Target("exactly", _CALLS)),
        Figure("most runs of one call", max(runs), "runs", Target("exactly", 1)),
        Figure("worker's memory with all waiting", memory / 2**20, "MiB", Target("at most", _MOST_MIB)),
        Figure("worker's memory per waiting run", (memory - memory_before) / 1024 / _CALLS, "KiB"),
        *_per_run_and_hour(before, after),
        Figure("until all had started", all_started, "s"),
        Figure("last answer after the runs' end", last_answer, "s"),
    )
    setting = {"calls": _CALLS, "seconds": _SECONDS, "actor": f"{_SLEEPER}, inside the sandbox's process", **_SETTINGS}
    return Finding("waiting", figures, setting)


def _per_run_and_hour(before: TemporalCounts, after: TemporalCounts) -> tuple[Figure, Figure]:
    hours = _WINDOW_SECONDS / 3_600 * _CALLS
    return (
        Figure("billable actions of a waiting run per hour", (after.actions - before.actions) / hours, "actions"),
        Figure("writes of a waiting run per hour", (after.writes - before.writes) / hours, "writes"),
    )


@asynccontextmanager
async def _client(system: System) -> AsyncGenerator[httpx.AsyncClient]:
    url = str(system.stack.addresses.api_url)
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=180) as http:
        yield http


async def _each(http: httpx.AsyncClient, over: Sequence[Any], do: Any) -> list[Any]:
    """`do` for each, some at a time, in order."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(entry: Any) -> Any:
        async with slots:
            return await do(http, entry)

    return await asyncio.gather(*(one(entry) for entry in over))


async def _started(http: httpx.AsyncClient, seconds: float) -> str:
    run_input = {"seconds": seconds, "steps": 1, "rows": 1}
    arguments = {"actor": _SLEEPER, "input": run_input, "callOptions": {"memory": 128}}
    response = await http.post("/v1/tasks", json={"tool": "call-actor", "arguments": arguments})
    return response.raise_for_status().json()["id"]


async def _started_until(http: httpx.AsyncClient, end: float) -> str:
    return await _started(http, max(1.0, end - time.monotonic()))


async def _succeeded(http: httpx.AsyncClient, task_id: str) -> bool:
    """Whether the task completed. A client that is told to come back (503) does so."""
    while True:
        response = await http.get(f"/v1/tasks/{task_id}/result", params={"wait": 60})
        if response.status_code == 503:
            await asyncio.sleep(_ASK_AGAIN_SECONDS)
        elif response.status_code != 202:
            return response.raise_for_status().json()["task"]["status"] == "completed"


async def _whole_call(http: httpx.AsyncClient, seconds: float) -> bool:
    return await _succeeded(http, await _started(http, seconds))


async def _all_run(system: System, end: float) -> int | None:
    """How many runs are open, when all are or the first are about to end."""
    waiting = len((await system.sandbox_counters())["runningNow"])
    return waiting if waiting >= _CALLS or time.monotonic() > end - _WINDOW_SECONDS - _LOOK_SECONDS else None
