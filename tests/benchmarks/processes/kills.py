"""`kill -9` of one worker, of one API process and of the Temporal server, one after the other, while calls are made.

Whoever has no answer repeats its request with the same idempotency key, at the other API process.
"""

import asyncio
import os
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from outlast.deploy.local.config import Component
from tests.benchmarks.processes.added import added_api, added_worker
from tests.benchmarks.report import Figure, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System
from tests.support.eventually import eventually

_PAID_CALLS = 60
_PAID_RUN_SECONDS = 15
_PACE_SECONDS = 0.1
_QUICK_CALLERS = 8
_BETWEEN_KILLS_SECONDS = 4.0
_AGAIN_SECONDS = 0.2
_PATIENCE_SECONDS = 300.0
SLEEPER = "outlast/sleeper"

Door = Callable[[], RestCaller]


@dataclass
class _Calls:
    """What was asked for, by its idempotency key."""

    doors: Sequence[Door]
    tasks: dict[str, str] = field(default_factory=dict[str, str])
    """The task of each call that was accepted."""
    repeated: int = 0

    async def accepted(self, number: int, body: dict[str, Any]) -> str:
        """Start a call, however often that takes; its task's id."""
        key = uuid4().hex
        for attempt in range(number, number + 10_000):
            with suppress(OSError, EOFError):
                async with asyncio.timeout(30), self.doors[attempt % len(self.doors)]() as caller:
                    status, answer = await caller.post("/v1/tasks", body, idempotency_key=key)
                    if status in (200, 201):
                        self.tasks[key] = answer["id"]
                        return answer["id"]
                    assert status in (429, 500, 502, 503, 504), answer
            self.repeated += 1
            await asyncio.sleep(_AGAIN_SECONDS)
        raise AssertionError("a call was never accepted")


async def measured_kills(system: System) -> tuple[Figure, ...]:
    """Kill while paid and quick calls go on, and look what became of each."""
    dataset_id = await system.new_dataset([{"url": "https://example.com"}])
    runs_before = (await system.sandbox_counters())["startsAccepted"]
    async with added_worker(system) as worker, added_api(system) as api:
        calls = _Calls((system.caller, api.caller))
        ended = asyncio.Event()
        quick = [asyncio.create_task(_keep_calling(calls, one, dataset_id, ended)) for one in range(_QUICK_CALLERS)]
        paid = [asyncio.create_task(_pay(calls, number)) for number in range(_PAID_CALLS)]
        for pid in (worker.process.pid, api.process.pid, system.stack.pid(Component.TEMPORAL)):
            await asyncio.sleep(_BETWEEN_KILLS_SECONDS)
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
        await asyncio.sleep(_BETWEEN_KILLS_SECONDS)
        killed_at = time.monotonic()
        ended.set()
        await asyncio.gather(*quick, *paid)
        states = await eventually(lambda: _all_ended(system, calls), _PATIENCE_SECONDS, 1)
        seconds = time.monotonic() - killed_at
    runs = (await system.sandbox_counters())["startsAccepted"] - runs_before
    completed = sum(state == "completed" for state in states)
    return (
        Figure("killed: a worker, an API process, the Temporal server; calls accepted", len(calls.tasks), "calls"),
        Figure("of them not completed", len(calls.tasks) - completed, "calls", Target("exactly", 0)),
        Figure("of them paid for", _PAID_CALLS, "calls"),
        Figure("runs that the platform started", runs, "runs", Target("exactly", _PAID_CALLS)),
        Figure("requests without an answer, repeated", calls.repeated, "requests"),
        Figure("from the last kill until all had ended", seconds + _BETWEEN_KILLS_SECONDS, "s"),
    )


async def _keep_calling(calls: _Calls, number: int, dataset_id: str, ended: asyncio.Event) -> None:
    while not ended.is_set():
        await calls.accepted(number, {"tool": "get-dataset-items", "arguments": {"datasetId": dataset_id}})
        await asyncio.sleep(_PACE_SECONDS)


async def _pay(calls: _Calls, number: int) -> None:
    """A call begins this long after the one before it, so that the kills meet each phase of a call."""
    await asyncio.sleep(number * 3 * _PACE_SECONDS)
    run_input = {"seconds": _PAID_RUN_SECONDS, "steps": 1, "rows": 1}
    arguments = {"actor": SLEEPER, "input": run_input, "callOptions": {"memory": 128}}
    await calls.accepted(number, {"tool": "call-actor", "arguments": arguments})


async def _all_ended(system: System, calls: _Calls) -> list[str]:
    async with system.caller() as caller:
        states = [
            (await caller.get(f"/v1/tasks/{task_id}"))[1].get("status", "unknown") for task_id in calls.tasks.values()
        ]
    open_ones = [state for state in states if state in ("queued", "working", "input_required", "unknown")]
    assert not open_ones, f"{len(open_ones)} of {len(states)} are open"
    return states
