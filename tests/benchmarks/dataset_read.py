"""A sync `get-dataset-items` of 1 KB through REST against the same read as a bare workflow: latency and throughput."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from uuid import uuid4

from tests.benchmarks.bare_call import BareRead, BareReadWorkflow
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import BARE_TASK_QUEUE, System, bare_worker, running_system

LATENCY_AT_MOST = Target("at most", 1.3)
THROUGHPUT_AT_LEAST = Target("at least", 0.8)

_ROWS = [{"url": f"https://example.com/{number}", "title": f"Page {number}", "text": "x" * 180} for number in range(4)]
"""1 KB as JSON."""
_WARM_UP = 50
_PAIRS = 300
_CALLERS = 64
_WARM_UP_ROUNDS = 2
_ROUNDS = 20
_CALLS_PER_CALLER = 2

Call = Callable[[], Awaitable[None]]


@dataclass(frozen=True)
class _Contest:
    system: System
    dataset_id: str

    async def through_rest(self, caller: RestCaller) -> None:
        status, answer = await caller.post(
            "/v1/tools/get-dataset-items/call", {"arguments": {"datasetId": self.dataset_id}}
        )
        assert status == 200, answer
        assert len(answer["result"]["structured"]["items"]) == len(_ROWS), answer

    async def bare(self) -> None:
        rows = await self.system.temporal.execute_workflow(
            BareReadWorkflow.run, BareRead(self.dataset_id), id=f"bare-{uuid4().hex}", task_queue=BARE_TASK_QUEUE
        )
        assert len(rows) == len(_ROWS), rows


async def measure_latency() -> Finding:
    """Alternate between the two, one call at a time, so that a noisy machine is as noisy for both."""
    ours: list[float] = []
    bare: list[float] = []
    async with _contest() as contest, contest.system.caller() as caller:

        async def through_rest() -> None:
            await contest.through_rest(caller)

        for number in range(_WARM_UP + _PAIRS):
            pair = ((through_rest, ours), (contest.bare, bare))
            for call, taken in pair if number % 2 else pair[::-1]:
                taken.append(await _milliseconds(call))
    ours, bare = ours[_WARM_UP:], bare[_WARM_UP:]
    ratio = statistics.median(ours) / statistics.median(bare)
    return Finding(
        "latency",
        (
            Figure("get-dataset-items through REST, median", statistics.median(ours), "ms"),
            Figure("bare workflow, median", statistics.median(bare), "ms"),
            Figure("ratio of the medians", ratio, "", LATENCY_AT_MOST),
            Figure("get-dataset-items through REST, 95th percentile", _percentile95(ours), "ms"),
            Figure("bare workflow, 95th percentile", _percentile95(bare), "ms"),
            Figure("get-dataset-items through REST, slowest", max(ours), "ms"),
            Figure("bare workflow, slowest", max(bare), "ms"),
        ),
        {"pairs": _PAIRS, "warm_up": _WARM_UP, "order": "alternating"},
    )


async def measure_throughput() -> Finding:
    """64 callers at once, in many short rounds that alternate between the two.

    The ratio is the median over pairs of neighbouring rounds: what else the machine does comes and goes within seconds,
    and would otherwise be charged to one side.
    """
    ours: list[float] = []
    bare: list[float] = []
    async with _contest() as contest, AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(contest.system.caller()) for _ in range(_CALLERS)]
        rest_calls: list[Call] = [lambda caller=caller: contest.through_rest(caller) for caller in callers]
        bare_calls: list[Call] = [contest.bare] * _CALLERS
        for number in range(_WARM_UP_ROUNDS + _ROUNDS):
            sides = ((rest_calls, ours), (bare_calls, bare))
            for calls, rates in sides if number % 2 else sides[::-1]:
                rates.append(await _calls_per_second(calls))
    ours, bare = ours[_WARM_UP_ROUNDS:], bare[_WARM_UP_ROUNDS:]
    ratio = statistics.median(one / other for one, other in zip(ours, bare, strict=True))
    return Finding(
        "throughput",
        (
            Figure("get-dataset-items through REST, median", statistics.median(ours), "calls/s"),
            Figure("bare workflow, median", statistics.median(bare), "calls/s"),
            Figure("median ratio of neighbouring rounds", ratio, "", THROUGHPUT_AT_LEAST),
        ),
        {"callers": _CALLERS, "rounds": _ROUNDS, "calls_per_caller": _CALLS_PER_CALLER, "order": "alternating"},
    )


@asynccontextmanager
async def _contest() -> AsyncGenerator[_Contest]:
    async with running_system() as system, bare_worker(system):
        yield _Contest(system, await system.new_dataset(_ROWS))


async def _calls_per_second(calls: list[Call]) -> float:
    """The rate at which all callers together are answered, each making one call after the other."""

    async def keep_calling(call: Call) -> None:
        for _ in range(_CALLS_PER_CALLER):
            await call()

    began = time.perf_counter()
    await asyncio.gather(*(keep_calling(call) for call in calls))
    return len(calls) * _CALLS_PER_CALLER / (time.perf_counter() - began)


async def _milliseconds(call: Call) -> float:
    began = time.perf_counter()
    await call()
    return (time.perf_counter() - began) * 1000


def _percentile95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]
