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
_ROUNDS = 4
_ROUND_SECONDS = 8.0

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
    """64 callers at once, in rounds that alternate between the two."""
    ours = bare = 0
    ratios: list[float] = []
    async with _contest() as contest, AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(contest.system.caller()) for _ in range(_CALLERS)]
        rest_calls: list[Call] = [lambda caller=caller: contest.through_rest(caller) for caller in callers]
        bare_calls: list[Call] = [contest.bare] * _CALLERS
        for calls in (rest_calls, bare_calls):
            await _round(calls, _ROUND_SECONDS / 2)
        for number in range(_ROUNDS):
            first, second = (rest_calls, bare_calls) if number % 2 else (bare_calls, rest_calls)
            answers = {id(calls): await _round(calls, _ROUND_SECONDS) for calls in (first, second)}
            ours += answers[id(rest_calls)]
            bare += answers[id(bare_calls)]
            ratios.append(answers[id(rest_calls)] / answers[id(bare_calls)])
    seconds = _ROUNDS * _ROUND_SECONDS
    return Finding(
        "throughput",
        (
            Figure("get-dataset-items through REST", ours / seconds, "calls/s"),
            Figure("bare workflow", bare / seconds, "calls/s"),
            Figure("ratio", ours / bare, "", THROUGHPUT_AT_LEAST),
            Figure("lowest ratio of a round", min(ratios), ""),
        ),
        {"callers": _CALLERS, "rounds": _ROUNDS, "round_seconds": _ROUND_SECONDS, "order": "alternating"},
    )


@asynccontextmanager
async def _contest() -> AsyncGenerator[_Contest]:
    async with running_system() as system, bare_worker(system):
        yield _Contest(system, await system.new_dataset(_ROWS))


async def _round(calls: list[Call], seconds: float) -> int:
    """How many calls were answered within `seconds`; those still open then are awaited and not counted."""
    end = time.perf_counter() + seconds
    answered = 0

    async def keep_calling(call: Call) -> None:
        nonlocal answered
        while time.perf_counter() < end:
            await call()
            answered += time.perf_counter() < end

    await asyncio.gather(*(keep_calling(call) for call in calls))
    return answered


async def _milliseconds(call: Call) -> float:
    began = time.perf_counter()
    await call()
    return (time.perf_counter() - began) * 1000


def _percentile95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]
