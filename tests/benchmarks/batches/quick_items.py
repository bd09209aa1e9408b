"""A batch of a quick tool against single calls of clients, in turns; then one long batch, whose history stays flat."""

import asyncio
import json
import statistics
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any

import httpx

from outlast.deploy.local.config import Component
from tests.benchmarks.batches.batch_runs import RunSize, runs_of
from tests.benchmarks.dataset_read import turns
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System, running_system

DEFAULT_ITEMS = 10_000
RATIO_AT_LEAST = Target("at least", 0.8)
EVENTS_AT_MOST = Target("at most", 10_240)
BYTES_AT_MOST = Target("at most", 10 * 2**20)
"""From here on a Temporal server warns of a history (`limit.historyCount.warn`, `limit.historySize.warn`)."""
GROWTH_AT_MOST = Target("at most", 64)

_TOOLS = "tests.support.tools.batch_tools"
_AT_ONCE = 25
_WARM_UP = 200
_ROUNDS = 5
_PER_ROUND = 1_000
_SETTLED = 2_000
"""After so many items the caches of the worker are filled: from then on its memory should not grow."""
_LOOK_SECONDS = 0.25


@dataclass(frozen=True)
class _Long:
    """What one long batch came to."""

    per_second: float
    memory_settled: int
    memory_most: int
    rows: list[int]
    runs: Sequence[RunSize]


async def measure_quick_items(items: int = DEFAULT_ITEMS) -> Finding:
    """Take turns, then carry out a batch of `items`."""
    async with running_system(tools_from=_TOOLS) as system, AsyncExitStack() as closing:
        callers = [await closing.enter_async_context(system.caller()) for _ in range(_AT_ONCE)]
        http = await closing.enter_async_context(_client(system))
        await _singles(callers, _WARM_UP)
        await _batch(http, _WARM_UP)
        rates: dict[str, list[float]] = {"batch": [], "single": []}
        for number in range(_ROUNDS):
            for side in turns(list(rates), number):
                one = _batch(http, _PER_ROUND) if side == "batch" else _singles(callers, _PER_ROUND)
                rates[side].append(await one)
        long = await _long(system, http, items)
    ratio = statistics.median(one / other for one, other in zip(rates["batch"], rates["single"], strict=True))
    growth = (long.memory_most - long.memory_settled) / 2**20
    missing = items - len(set(long.rows) & set(range(items)))
    figures = (
        Figure("single calls, median of the rounds", statistics.median(rates["single"]), "calls/s"),
        Figure("items of a batch, median of the rounds", statistics.median(rates["batch"]), "items/s"),
        Figure("median ratio of neighbouring rounds", ratio, "", RATIO_AT_LEAST, "higher"),
        Figure("items of the long batch", long.per_second, "items/s"),
        Figure("its items without a row, or with several", missing + len(long.rows) - items, "", Target("exactly", 0)),
        Figure("runs of its workflow", len(long.runs)),
        Figure("longest history of them", max(run.events for run in long.runs), "events", EVENTS_AT_MOST),
        Figure("largest history of them", max(run.size_bytes for run in long.runs), "bytes", BYTES_AT_MOST),
        Figure("worker's memory, when its caches are filled", long.memory_settled / 2**20, "MiB"),
        Figure("growth of the worker's memory from then on", growth, "MiB", GROWTH_AT_MOST),
    )
    setting = {"items": items, "at_once": _AT_ONCE, "rounds": _ROUNDS, "per_round": _PER_ROUND, "order": "in turns"}
    return Finding("batch", figures, setting)


def _client(system: System) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=str(system.stack.addresses.api_url), trust_env=False, timeout=600)


async def _singles(callers: Sequence[RestCaller], count: int) -> float:
    """Calls per second of all callers together, each making one after the other."""
    numbers = iter(range(count))

    async def keep_calling(caller: RestCaller) -> None:
        for number in numbers:
            status, answer = await caller.post("/v1/tools/double/call", {"arguments": {"number": number}})
            assert status == 200, answer
            assert answer["result"]["structured"]["doubled"] == 2 * number, answer

    began = time.perf_counter()
    await asyncio.gather(*(keep_calling(caller) for caller in callers))
    return count / (time.perf_counter() - began)


async def _batch(http: httpx.AsyncClient, count: int) -> float:
    """Items per second of a batch, from the file that is sent to its end."""
    began = time.perf_counter()
    batch = await _ended(http, await _begun(http, count))
    seconds = time.perf_counter() - began
    assert (batch["status"], batch["completed"]) == ("completed", count), batch
    return count / seconds


async def _long(system: System, http: httpx.AsyncClient, items: int) -> _Long:
    began = time.perf_counter()
    batch_id = await _begun(http, items)
    memory: list[tuple[int, int]] = []

    async def look(batch: dict[str, Any]) -> None:
        memory.append((batch["completed"], system.memory_bytes(Component.WORKER)))

    batch = await _ended(http, batch_id, look)
    per_second = items / (time.perf_counter() - began)
    assert (batch["status"], batch["completed"]) == ("completed", items), batch
    settled = [size for done, size in memory if done <= min(_SETTLED, items // 2)]
    answer = (await http.get(f"/v1/batches/{batch_id}/results")).raise_for_status()
    rows = [json.loads(line)["index"] for line in answer.text.splitlines()]
    runs = await runs_of(system.temporal, batch_id)
    return _Long(per_second, max(settled), max(size for _, size in memory), rows, runs)


async def _begun(http: httpx.AsyncClient, count: int) -> str:
    lines = b"".join(b'{"number":%d}\n' % number for number in range(count))
    settings = {"tool": "double", "concurrency": _AT_ONCE}
    headers = {"Content-Type": "application/x-ndjson", "Outlast-Batch": json.dumps(settings)}
    answer = await http.post("/v1/batches/uploads", content=lines, headers=headers)
    return answer.raise_for_status().json()["id"]


async def _ended(http: httpx.AsyncClient, batch_id: str, look: Any = None) -> dict[str, Any]:
    while True:
        batch = (await http.get(f"/v1/batches/{batch_id}")).raise_for_status().json()
        if look is not None:
            await look(batch)
        if batch["status"] != "working":
            return batch
        await asyncio.sleep(_LOOK_SECONDS)
