"""10,000 calls that wait for their clients at once on one worker, whose cache holds half of them; then all answered.

It also says what a hand-off takes: of the processors, process by process, and of the Temporal server.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from outlast.deploy.local.config import Component
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.system import System, TemporalCounts, running_system
from tests.support.eventually import eventually

_CALLS = 10_000
_AT_ONCE = 32
_TOOLS = "docs.examples.hello_tools"
_CALL = {"tool": "pick_colour", "arguments": {"colours": ["red", "blue"]}}
_ANSWER = {"answers": {"pick": {"content": {"colour": "red"}}}}
_PATIENCE_SECONDS = 900.0


@dataclass(frozen=True)
class _Spent:
    """What the parts of the system have taken until a moment."""

    at: float
    processor: Mapping[str, float]
    counts: TemporalCounts

    @classmethod
    async def now(cls, system: System) -> "_Spent":
        return cls(time.monotonic(), system.processor_seconds(), await system.temporal_counts())

    def figures(self, before: "_Spent", phase: str, calls: int) -> tuple[Figure, ...]:
        """What each call took since `before`."""
        processor = {name: (spent - before.processor[name]) * 1_000 / calls for name, spent in self.processor.items()}
        return (
            *(Figure(f"{phase}, {name}", taken, "ms per call") for name, taken in processor.items() if taken > 0.1),
            Figure(f"{phase}, actions", (self.counts.actions - before.counts.actions) / calls, "per call"),
            Figure(f"{phase}, writes", (self.counts.writes - before.counts.writes) / calls, "per call"),
        )


async def measure_handoffs(calls: int = _CALLS) -> Finding:
    """Start the calls, wait until each asks, look at the worker, answer each, and count the right answers."""
    async with running_system(tools_from=_TOOLS) as system, _clients(system) as http:
        await _each(http, range(64), lambda client, _: _whole_call(client))
        before = system.memory_bytes(Component.WORKER)
        began = await _Spent.now(system)
        tasks: list[str] = await _each(http, range(calls), lambda client, _: _started(client))
        await eventually(lambda: _waiting(system, calls), _PATIENCE_SECONDS, 1)
        asked, memory = await _Spent.now(system), system.memory_bytes(Component.WORKER)
        right = await _each(http, tasks, _answered)
        answered = await _Spent.now(system)
    figures = (
        Figure("hand-offs pending at once", len(tasks), "tasks", Target("exactly", calls)),
        Figure("answers taken and results right", sum(right), "tasks", Target("exactly", calls)),
        Figure("worker's memory with all pending", memory / 2**20, "MiB"),
        Figure("worker's memory per pending hand-off", (memory - before) / 1024 / calls, "KiB"),
        Figure("until all had asked", asked.at - began.at, "s"),
        Figure("until all were answered", answered.at - asked.at, "s"),
        *asked.figures(began, "until it has asked", calls),
        *answered.figures(asked, "until it is answered", calls),
    )
    return Finding("handoffs", figures, {"calls": calls, "tool": "pick_colour", "cached workflows": 5_000})


async def _each(http: httpx.AsyncClient, over: Any, do: Any) -> list[Any]:
    """`do` for each, some at a time, in order."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def one(entry: Any) -> Any:
        async with slots:
            return await do(http, entry)

    return await asyncio.gather(*(one(entry) for entry in over))


@asynccontextmanager
async def _clients(system: System) -> AsyncGenerator[httpx.AsyncClient]:
    url = str(system.stack.addresses.api_url)
    async with httpx.AsyncClient(base_url=url, trust_env=False, timeout=120) as http:
        yield http


async def _started(http: httpx.AsyncClient) -> str:
    return (await http.post("/v1/tasks", json=_CALL)).raise_for_status().json()["id"]


async def _waiting(system: System, calls: int) -> bool:
    """Whether every open task asks something (visibility lags a little behind)."""
    count = await system.temporal.count_workflows(
        "ExecutionStatus = 'Running' AND OutlastTaskStatus = 'input_required'"
    )
    return count.count >= calls


async def _answered(http: httpx.AsyncClient, task_id: str) -> bool:
    (await http.post(f"/v1/tasks/{task_id}/input", json=_ANSWER)).raise_for_status()
    response = await http.get(f"/v1/tasks/{task_id}/result", params={"wait": 60})
    result = response.raise_for_status().json().get("result")
    return result is not None and result["content"][0]["text"] == "The user likes red."


async def _whole_call(http: httpx.AsyncClient) -> bool:
    task_id = await _started(http)

    async def asked() -> bool:
        return (await http.get(f"/v1/tasks/{task_id}")).json()["status"] == "input_required"

    await eventually(asked)
    return await _answered(http, task_id)
