"""A batch of Actor runs while worker, API and Temporal server are killed fifty times, and the account is full at times.

One item in twenty equals another one, whose answer it reuses. As many runs as items less those, each row once, no more
money than the budget, nothing left running; the same when the batch is cancelled in the middle and resumed.
"""

import asyncio
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import psutil

from outlast.activities.spending.contracts import exact_usd
from tests.benchmarks.batches.batch_runs import runs_of
from tests.benchmarks.batches.quick_items import BYTES_AT_MOST, EVENTS_AT_MOST
from tests.benchmarks.report import Figure, Finding, Target
from tests.support.calls.batches import Body, OutlivingBatch, sleepers
from tests.support.stacks.api_server import connect
from tests.support.stacks.chaos_client import Chaos
from tests.support.stacks.chaos_stack import ChaosStack
from tests.support.stacks.sandbox import running_sandbox

DEFAULT_ITEMS = 10_000
KILLS = 50
_SEED = 1
_AT_ONCE = 25
_SECONDS = 0.2
"""Of a run."""
_FULL_EVERY = 8
"""One kill in so many happens while the account has room for one run only."""
_LIMIT_USD = Decimal("0.00002")
_BUDGET_USD = Decimal("0.000006")
"""For each item: one and a half times what it costs."""
_REUSED_SHARE = 20
_PATIENCE_SECONDS = 7_200.0
_GROWTH_AT_MOST = Target("at most", 64)


@dataclass
class _Watch:
    """The worker's memory, by the share of the items that had ended."""

    chaos: Chaos
    batch: OutlivingBatch
    items: int
    seen: list[tuple[float, int]] = field(default_factory=list[tuple[float, int]])
    done: float = 0.0

    async def go_on(self) -> None:
        """Look every second, until it is cancelled."""
        while True:
            with suppress(psutil.NoSuchProcess, AssertionError):
                self.seen.append((self.done, psutil.Process(self.chaos.stack.worker.pid).memory_info().rss))
            await asyncio.sleep(1)

    def most(self, start: float, end: float) -> float:
        """The most of a stretch, in MiB."""
        return max((size for done, size in self.seen if start <= done <= end), default=0) / 2**20


async def measure_batch_kills(items: int = DEFAULT_ITEMS) -> Finding:
    """Kill everything while the batch goes on, to its end."""
    return await _measured("batch-kills", items, cancels=False)


async def measure_cancelled_batch_kills(items: int = DEFAULT_ITEMS) -> Finding:
    """The same, cancelled in the middle while its worker is dead, and resumed."""
    return await _measured("batch-cancel-kills", items, cancels=True)


async def _measured(name: str, items: int, *, cancels: bool) -> Finding:
    budget = items * _BUDGET_USD + _AT_ONCE * _LIMIT_USD
    began = time.monotonic()
    async with _running() as chaos:
        batch = await OutlivingBatch.begun(chaos, _body(items, budget))
        watch = _Watch(chaos, batch, items)
        watching = asyncio.create_task(watch.go_on())
        kills, cancelled = Counter[str](), dict[str, Any]()
        moments = random.Random(_SEED)
        if cancels:
            await _kill(watch, moments, kills, range(KILLS // 2))
            cancelled = await _cancelled(chaos, batch)
            await _kill(watch, moments, kills, range(KILLS // 2, KILLS))
        else:
            await _kill(watch, moments, kills, range(KILLS))
        end = await batch.ended(_PATIENCE_SECONDS)
        watching.cancel()
        taken = time.monotonic() - began
        figures = (
            *(Figure(f"kill -9 of {part}", number) for part, number in sorted(kills.items())),
            *await _books(chaos, batch, end, items, budget),
            *_of_cancel(cancelled),
            Figure("most memory of the worker, first third", watch.most(0, 1 / 3), "MiB"),
            Figure("growth until the last third", watch.most(2 / 3, 1) - watch.most(0, 1 / 3), "MiB", _GROWTH_AT_MOST),
            *await _histories(chaos, batch),
            Figure("from start to end", taken, "s"),
        )
    setting = {"items": items, "kills": KILLS, "at_once": _AT_ONCE, "seed": _SEED, "seconds": _SECONDS}
    return Finding(name, figures, setting)


def _body(items: int, budget: Decimal) -> Body:
    options = {"budget": {"max_total_charge_usd": str(_LIMIT_USD)}, "reuse": {"max_age": "6h"}}
    body = sleepers(items, _SECONDS, concurrency=_AT_ONCE, budget_usd=str(budget), options=options)
    for number, item in enumerate(body["items"]):
        item["arguments"]["input"]["message"] = f"item {number % _distinct(items)}"
    return body


def _distinct(items: int) -> int:
    return items - items // _REUSED_SHARE


@asynccontextmanager
async def _running() -> AsyncGenerator[Chaos]:
    with tempfile.TemporaryDirectory(prefix="outlast-bench-") as name:
        folder = Path(name)
        with running_sandbox(folder) as sandbox, ChaosStack(folder, sandbox) as stack:
            sandbox.limit(memoryMbytes=1_000_000, concurrentRuns=_AT_ONCE)
            await stack.bring_up()
            chaos = Chaos(stack)
            try:
                yield chaos
            finally:
                await chaos.http.aclose()


async def _kill(watch: _Watch, moments: random.Random, kills: Counter[str], numbers: range) -> None:
    """One kill after the other, evenly spread over the items; each part is back before the next one."""
    chaos, stack = watch.chaos, watch.chaos.stack
    parts = [stack.worker] * 6 + [stack.api] * 2 + [stack.temporal] * 2
    for number in numbers:
        due = int((number + moments.random()) * watch.items / (KILLS + 1))
        batch = await watch.batch.until_ended(due, _PATIENCE_SECONDS)
        watch.done = (batch["completed"] + batch["failed"]) / watch.items
        assert batch["status"] == "working", batch
        is_full = number % _FULL_EVERY == _FULL_EVERY // 2
        if is_full:
            chaos.sandbox.limit(concurrentRuns=1)
            kills["any while the account was full"] += 1
        part = moments.choice(parts)
        await part.restart()
        await stack.bring_up()
        kills[part.name] += 1
        print(f"  kill {number + 1} of {KILLS}, {part.name}, at {watch.done:.0%}", file=sys.stderr, flush=True)
        if is_full:
            chaos.sandbox.limit(concurrentRuns=_AT_ONCE)


async def _cancelled(chaos: Chaos, batch: OutlivingBatch) -> dict[str, Any]:
    """Cancel the batch while no worker is alive, look at what is left, and have it go on."""
    chaos.stack.worker.kill()
    await batch.post("cancel", {})
    chaos.stack.worker.start()
    end = await batch.ended()
    running, rows = chaos.books.running, await batch.rows()
    unknown = set(chaos.books.run_ids()) - {row.get("run_id") for row in rows}
    await batch.post("resume", {})
    return {"status": end["status"], "rows": rows, "running": running, "unknown": unknown}


def _of_cancel(found: dict[str, Any]) -> tuple[Figure, ...]:
    if not found:
        return ()
    rows = found["rows"]
    return (
        Figure("cancelled: it said so", int(found["status"] == "cancelled"), "", Target("exactly", 1)),
        Figure("cancelled: rows then", len(rows)),
        Figure("cancelled: keys with several rows", len(rows) - len({row["key"] for row in rows}), "", _NONE),
        Figure("cancelled: runs that went on", len(found["running"]), "", _NONE),
        Figure("cancelled: runs that no row names", len(found["unknown"]), "", _NONE),
    )


_NONE = Target("exactly", 0)
_MILLS = "thousandths of a US dollar"


async def _books(chaos: Chaos, batch: OutlivingBatch, end: Body, items: int, budget: Decimal) -> tuple[Figure, ...]:
    """What the platform has counted, beside what the batch says."""
    rows, counters = await batch.rows(), chaos.sandbox.counters
    runs = chaos.books.run_ids()
    charged = Decimal(0)
    for run in runs:
        charged += exact_usd((await asyncio.to_thread(chaos.sandbox.run, run))["usageTotalUsd"])
    temporal = await connect(chaos.stack.temporal_server.address)
    still_open = await temporal.count_workflows(f"OutlastBatch = '{batch.id}' AND ExecutionStatus = 'Running'")
    several = sum(len(of_one) > 1 for of_one in counters["operations"].values())
    indexes = [row["index"] for row in rows]
    distinct = _distinct(items)
    wrong = [
        row for row in rows if [item["message"] for item in row.get("items", [])] != [f"item {row['index'] % distinct}"]
    ]
    return (
        Figure("items completed", end["completed"], "", Target("exactly", items)),
        Figure("items without a row", items - len(set(indexes)), "", _NONE),
        Figure("items with several rows", len(indexes) - len(set(indexes)), "", _NONE),
        Figure("rows without the right answer", len(wrong), "", _NONE),
        Figure("items that reused an answer", sum("reused" in row for row in rows)),
        Figure("runs that succeeded", chaos.books.ended_as("SUCCEEDED"), "", Target("exactly", distinct)),
        Figure("runs that were aborted", chaos.books.ended_as("ABORTED")),
        Figure("calls with several runs", several, "", _NONE),
        Figure("runs that go on", len(chaos.books.running), "", _NONE),
        Figure("tasks that go on", still_open.count, "", _NONE),
        Figure("charged by the platform", float(charged * 1000), _MILLS, Target("at most", float(budget * 1000))),
        Figure("what the batch says less that", float((exact_usd(end["cost_usd"]) - charged) * 1000), _MILLS),
    )


async def _histories(chaos: Chaos, batch: OutlivingBatch) -> tuple[Figure, ...]:
    temporal = await connect(chaos.stack.temporal_server.address)
    runs = await runs_of(temporal, batch.id)
    return (
        Figure("longest history of its workflow", max(run.events for run in runs), "events", EVENTS_AT_MOST),
        Figure("largest history of its workflow", max(run.size_bytes for run in runs), "bytes", BYTES_AT_MOST),
    )
