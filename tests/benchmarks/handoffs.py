"""10,000 calls that wait for their clients at once on one worker, whose cache holds half of them; then all answered."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx

from outlast.deploy.local.config import Component
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.system import System, running_system
from tests.support.eventually import eventually

_CALLS = 10_000
_AT_ONCE = 32
_TOOLS = "docs.examples.hello_tools"
_CALL = {"tool": "pick_colour", "arguments": {"colours": ["red", "blue"]}}
_ANSWER = {"answers": {"pick": {"content": {"colour": "red"}}}}
_PATIENCE_SECONDS = 900.0


async def measure_handoffs() -> Finding:
    """Start the calls, wait until each asks, look at the worker, answer each, and count the right answers."""
    async with running_system(tools_from=_TOOLS) as system, _clients(system) as http:
        await _each(http, range(64), lambda client, _: _whole_call(client))
        before = system.memory_bytes(Component.WORKER)
        began = time.monotonic()
        tasks: list[str] = await _each(http, range(_CALLS), lambda client, _: _started(client))
        await eventually(lambda: _waiting(system), _PATIENCE_SECONDS, 1)
        all_asked, memory = time.monotonic() - began, system.memory_bytes(Component.WORKER)
        began = time.monotonic()
        right = await _each(http, tasks, _answered)
        answered = time.monotonic() - began
    figures = (
        Figure("hand-offs pending at once", len(tasks), "tasks", Target("exactly", _CALLS)),
        Figure("answers taken and results right", sum(right), "tasks", Target("exactly", _CALLS)),
        Figure("worker's memory with all pending", memory / 2**20, "MiB"),
        Figure("worker's memory per pending hand-off", (memory - before) / 1024 / _CALLS, "KiB"),
        Figure("until all had asked", all_asked, "s"),
        Figure("until all were answered", answered, "s"),
    )
    return Finding("handoffs", figures, {"calls": _CALLS, "tool": "pick_colour", "cached workflows": 5_000})


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


async def _waiting(system: System) -> bool:
    """Whether every open task asks something (visibility lags a little behind)."""
    count = await system.temporal.count_workflows(
        "ExecutionStatus = 'Running' AND OutlastTaskStatus = 'input_required'"
    )
    return count.count >= _CALLS


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
