"""A sync `get-dataset-items` of 1 KB through REST against the same read as bare workflows: latency and throughput."""

import asyncio
import statistics
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from uuid import uuid4

from tests.benchmarks.bare_call import BareActivities, BareLocalReadWorkflow, BareRead, BareReadWorkflow
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import BARE_TASK_QUEUE, System, bare_worker, running_system

LATENCY_AT_MOST = Target("at most", 0.75)
LOCAL_LATENCY_AT_MOST = Target("at most", 1.25)
"""Against a workflow that has no activity but a local one: the least that Temporal asks of a workflow."""
THROUGHPUT_AT_LEAST = Target("at least", 1.5)

_ROWS = [{"url": f"https://example.com/{number}", "title": f"Page {number}", "text": "x" * 180} for number in range(4)]
"""1 KB as JSON."""
_WARM_UP = 50
_ROUNDS_OF_ONE = 200
_CALLERS = 64
_WARM_UP_ROUNDS = 2
_ROUNDS = 20
_CALLS_PER_CALLER = 2

Call = Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Contest:
    """One read in four ways, on one system."""

    system: System
    dataset_id: str
    bare_worker_pid: int

    async def through_rest(self, caller: RestCaller) -> str:
        """The task's id."""
        status, answer = await caller.post(
            "/v1/tools/get-dataset-items/call", {"arguments": {"datasetId": self.dataset_id}}
        )
        assert status == 200, answer
        assert len(answer["result"]["structured"]["items"]) == len(_ROWS), answer
        return answer["task"]["id"]

    async def bare(self) -> None:
        rows = await self.system.temporal.execute_workflow(
            BareReadWorkflow.run, BareRead(self.dataset_id), id=f"bare-{uuid4().hex}", task_queue=BARE_TASK_QUEUE
        )
        assert len(rows) == len(_ROWS), rows

    async def bare_local(self) -> None:
        rows = await self.system.temporal.execute_workflow(
            BareLocalReadWorkflow.run, BareRead(self.dataset_id), id=f"bare-{uuid4().hex}", task_queue=BARE_TASK_QUEUE
        )
        assert len(rows) == len(_ROWS), rows

    async def alone(self) -> None:
        rows = await self.system.temporal.execute_activity_method(
            BareActivities.read_items,
            BareRead(self.dataset_id),
            id=f"bare-{uuid4().hex}",
            task_queue=BARE_TASK_QUEUE,
            start_to_close_timeout=timedelta(seconds=60),
        )
        assert len(rows) == len(_ROWS), rows


async def measure_latency() -> Finding:
    """Take turns, one call at a time, so that a noisy machine is as noisy for all."""
    async with running_contest() as contest, contest.system.caller() as caller:

        async def through_rest() -> None:
            await contest.through_rest(caller)

        calls = {"ours": through_rest, "bare": contest.bare, "local": contest.bare_local, "alone": contest.alone}
        taken: dict[str, list[float]] = {side: [] for side in calls}
        for number in range(_WARM_UP + _ROUNDS_OF_ONE):
            for side in turns(list(calls), number):
                taken[side].append(await _milliseconds(calls[side]))
    ours, bare, local, alone = (values[_WARM_UP:] for values in taken.values())
    median = statistics.median
    return Finding(
        "latency",
        (
            Figure("get-dataset-items through REST, median", median(ours), "ms"),
            Figure("bare workflow, median", median(bare), "ms"),
            Figure("ratio of the medians", median(ours) / median(bare), "", LATENCY_AT_MOST, "lower"),
            Figure("bare workflow with a local activity, median", median(local), "ms"),
            Figure("ratio of the medians to that", median(ours) / median(local), "", LOCAL_LATENCY_AT_MOST, "lower"),
            Figure("activity without a workflow, median", median(alone), "ms"),
            Figure("get-dataset-items through REST, 95th percentile", _percentile95(ours), "ms"),
            Figure("bare workflow, 95th percentile", _percentile95(bare), "ms"),
            Figure("get-dataset-items through REST, slowest", max(ours), "ms"),
            Figure("bare workflow, slowest", max(bare), "ms"),
        ),
        {"rounds": _ROUNDS_OF_ONE, "warm_up": _WARM_UP, "order": "in turns"},
    )


async def measure_throughput() -> Finding:
    """64 callers at once, in many short rounds that take turns.

    The ratios are medians over rounds that are neighbours: what else the machine does comes and goes within seconds,
    and would otherwise be charged to one side.
    """
    async with running_contest() as contest, AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(contest.system.caller()) for _ in range(_CALLERS)]
        calls: dict[str, list[Call]] = {
            "ours": [lambda caller=caller: contest.through_rest(caller) for caller in callers],
            "bare": [contest.bare] * _CALLERS,
            "local": [contest.bare_local] * _CALLERS,
        }
        rates: dict[str, list[float]] = {side: [] for side in calls}
        for number in range(_WARM_UP_ROUNDS + _ROUNDS):
            for side in turns(list(calls), number):
                rates[side].append(await _calls_per_second(calls[side]))
    ours, bare, local = (values[_WARM_UP_ROUNDS:] for values in rates.values())
    return Finding(
        "throughput",
        (
            Figure("get-dataset-items through REST, median", statistics.median(ours), "calls/s"),
            Figure("bare workflow, median", statistics.median(bare), "calls/s"),
            Figure("median ratio of neighbouring rounds", _ratio(ours, bare), "", THROUGHPUT_AT_LEAST, "higher"),
            Figure("bare workflow with a local activity, median", statistics.median(local), "calls/s"),
            Figure("median ratio to that", _ratio(ours, local), better="higher"),
        ),
        {"callers": _CALLERS, "rounds": _ROUNDS, "calls_per_caller": _CALLS_PER_CALLER, "order": "in turns"},
    )


def turns(sides: list[str], number: int) -> list[str]:
    """The order of a round: each side comes first, and last, as often as any other."""
    first = number % len(sides)
    return sides[first:] + sides[:first]


def _ratio(ours: list[float], theirs: list[float]) -> float:
    return statistics.median(one / other for one, other in zip(ours, theirs, strict=True))


@asynccontextmanager
async def running_contest() -> AsyncGenerator[Contest]:
    """A fresh stack, and the yardsticks' worker beside it."""
    async with running_system() as system, bare_worker(system) as pid:
        yield Contest(system, await system.new_dataset(_ROWS), pid)


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
