"""Quick calls from 64 callers through one or two API processes, on one, two and four workers; and who is busy then.

The workers are added one after the other and taken away again, so that a machine that gets slower or faster meanwhile
does so for all.
"""

import asyncio
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass

import psutil

from outlast.deploy.local.config import Component
from tests.benchmarks.processes.added import Added, added_api, added_worker
from tests.benchmarks.report import Figure
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System

_TOOL = "get-dataset-items"
_ROWS = [{"url": f"https://example.com/{number}", "title": f"Page {number}", "text": "x" * 180} for number in range(4)]
"""1 KB as JSON."""
_CALLERS = 64
_WARM_UP_SECONDS, _SECONDS = 3.0, 10.0
_WORKERS = (1, 2, 4)
_APIS = (1, 2)


@dataclass(frozen=True)
class _Round:
    calls_per_second: float
    busy: Mapping[str, float]
    """By kind of process, how many processors it kept busy."""


async def measured_throughput(system: System) -> tuple[Figure, ...]:
    """A figure per number of workers and API processes, and one per kind of process."""
    rounds: dict[tuple[int, int], list[_Round]] = defaultdict(list)
    dataset_id = await system.new_dataset(_ROWS)
    async with added_api(system) as api:
        for workers in (*_WORKERS, *reversed(_WORKERS)):
            async with AsyncExitStack() as stack:
                added = [await stack.enter_async_context(added_worker(system)) for _ in range(workers - 1)]
                for apis in _APIS:
                    rounds[workers, apis].append(await _round(system, added, [api] * (apis - 1), dataset_id))
    return tuple(figure for combination, found in rounds.items() for figure in _figures(*combination, found))


def _figures(workers: int, apis: int, rounds: Sequence[_Round]) -> list[Figure]:
    name = f"{workers} workers, {apis} API"
    mean = statistics.mean
    return [
        Figure(name, mean(one.calls_per_second for one in rounds), "calls/s"),
        *(
            Figure(f"the same, {kind}", mean(one.busy[kind] for one in rounds), "processors busy")
            for kind in rounds[0].busy
        ),
    ]


async def _round(system: System, workers: Sequence[Added], apis: Sequence[Added], dataset_id: str) -> _Round:
    processes = _processes(system, workers, apis)
    async with AsyncExitStack() as stack:
        doors = [system.caller, *(api.caller for api in apis)]
        callers = [await stack.enter_async_context(doors[number % len(doors)]()) for number in range(_CALLERS)]
        await _calls(callers, dataset_id, _WARM_UP_SECONDS)
        before, began = _seconds(processes), time.monotonic()
        made = await _calls(callers, dataset_id, _SECONDS)
        took = time.monotonic() - began
        busy = {kind: (spent - before[kind]) / took for kind, spent in _seconds(processes).items()}
    return _Round(made / took, busy)


async def _calls(callers: Sequence[RestCaller], dataset_id: str, seconds: float) -> int:
    """How many calls were answered: each caller makes one after the other for so long."""
    end = time.monotonic() + seconds

    async def keep_calling(caller: RestCaller) -> int:
        made = 0
        while time.monotonic() < end:
            status, answer = await caller.post(f"/v1/tools/{_TOOL}/call", {"arguments": {"datasetId": dataset_id}})
            assert status == 200, answer
            made += 1
        return made

    return sum(await asyncio.gather(*map(keep_calling, callers)))


def _processes(system: System, workers: Sequence[Added], apis: Sequence[Added]) -> Mapping[str, list[psutil.Process]]:
    pids = {component: system.stack.pid(component) for component in Component}
    more = {Component.WORKER: workers, Component.API: apis}
    found = {
        str(component): [pid, *(one.process.pid for one in more.get(component, ()))]
        for component, pid in pids.items()
        if pid is not None
    }
    known = {kind: [psutil.Process(pid) for pid in of_kind] for kind, of_kind in found.items()}
    return {**known, "callers": [psutil.Process()]}


def _seconds(processes: Mapping[str, Sequence[psutil.Process]]) -> dict[str, float]:
    """Processor time so far, by kind."""
    taken = {kind: [one.cpu_times() for one in of_kind] for kind, of_kind in processes.items()}
    return {kind: sum(times.user + times.system for times in of_kind) for kind, of_kind in taken.items()}
