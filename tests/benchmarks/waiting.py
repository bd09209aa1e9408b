"""2,000 Actor calls waiting at once on one worker: all answered, one run each, and what one waiting task weighs."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from outlast.deploy.local.config import Component
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System, running_system

_CALLS = 2_000
_CALLS_AHEAD = 64
"""Calls made beyond the runs that have started: the runs start as fast as the machine allows, without a pile."""
_WARM_UP = 100
_SECONDS = 360
"""All runs end so long after the first call, so that all answers are due at once. By then all must have started, which
takes two minutes on a quiet machine of two cores and five on a busy one."""
_ASK_AGAIN_SECONDS = 5
_SLEEPER = "outlast/sleeper"


@dataclass
class _Progress:
    """What the platform has seen so far, and the worker's memory when most runs were open."""

    started: int = 0
    all_started_after: float = 0
    most_waiting: int = 0
    memory_bytes: int = 0
    asked_again: int = 0


async def measure_waiting() -> Finding:
    """Make the calls, hold every connection until its answer is there, and ask the platform what it was asked for."""
    async with running_system(in_process=(_SLEEPER,), runs_at_once=_CALLS + 100) as system, AsyncExitStack() as stack:
        await _warm_up(system)
        memory_before = system.memory_bytes(Component.WORKER)
        callers = [await stack.enter_async_context(system.caller()) for _ in range(_CALLS)]
        async with _watching(system) as progress:
            end = time.monotonic() + _SECONDS
            answers = await _answers(callers, progress, end)
            last_answer_after = time.monotonic() - end
        counters = await system.sandbox_counters()
    figures = _figures(progress, memory_before, answers, counters, last_answer_after)
    setting = {"calls": _CALLS, "seconds": _SECONDS, "actor": f"{_SLEEPER}, inside the sandbox's process"}
    return Finding("waiting", figures, setting)


async def _warm_up(system: System) -> None:
    async with AsyncExitStack() as stack:
        callers = [await stack.enter_async_context(system.caller()) for _ in range(_WARM_UP)]
        await asyncio.gather(*(_answer(caller, time.monotonic() + 1, _Progress()) for caller in callers))


def _figures(
    progress: _Progress,
    memory_before: int,
    answers: list[dict[str, Any]],
    counters: dict[str, Any],
    last_answer_after: float,
) -> tuple[Figure, ...]:
    succeeded = sum(answer["task"]["status"] == "completed" for answer in answers)
    runs = [len(runs) for runs in counters["operations"].values()]
    memory_per_task = (progress.memory_bytes - memory_before) / max(progress.most_waiting, 1)
    return (
        Figure("runs waited for at once", progress.most_waiting, "runs", Target("exactly", _CALLS)),
        Figure("calls answered with what the run produced", succeeded, "calls", Target("exactly", _CALLS)),
        Figure("runs started", counters["startsAccepted"] - _WARM_UP, "runs", Target("exactly", _CALLS)),
        Figure("most runs of one call", max(runs), "runs", Target("exactly", 1)),
        Figure("worker's memory per waiting task", memory_per_task / 1024, "KiB"),
        Figure("worker's memory with all waiting", progress.memory_bytes / 2**20, "MiB"),
        Figure("until all had started", progress.all_started_after, "s"),
        Figure("calls told to ask again (503)", progress.asked_again, "answers"),
        Figure("last answer after the runs' end", last_answer_after, "s"),
    )


async def _answers(callers: list[RestCaller], progress: _Progress, end: float) -> list[dict[str, Any]]:
    calls: list[asyncio.Task[dict[str, Any]]] = []
    for caller in callers:
        while len(calls) >= progress.started + _CALLS_AHEAD:
            await asyncio.sleep(0.1)
        calls.append(asyncio.create_task(_answer(caller, end, progress)))
    return await asyncio.gather(*calls)


async def _answer(caller: RestCaller, end: float, progress: _Progress) -> dict[str, Any]:
    """Call the sleeper so that it ends at `end`, and stay until the answer is there, as a client should: a call that is
    told to come back (503) does so, with the same idempotency key."""
    run_input = {"seconds": max(1, end - time.monotonic()), "steps": 1, "rows": 1}
    body = {"arguments": {"actor": _SLEEPER, "input": run_input, "callOptions": {"memory": 128}}}
    key = uuid4().hex
    while True:
        status, answer = await caller.post("/v1/tools/call-actor/call", body, idempotency_key=key)
        if status == 200:
            return answer
        assert status in (202, 503), answer
        if status == 503:
            progress.asked_again += 1
            await asyncio.sleep(_ASK_AGAIN_SECONDS)


@asynccontextmanager
async def _watching(system: System) -> AsyncGenerator[_Progress]:
    progress = _Progress()
    task = asyncio.create_task(_watch(system, progress))
    try:
        yield progress
    finally:
        task.cancel()


async def _watch(system: System, progress: _Progress) -> None:
    began = time.monotonic()
    while True:
        counters = await system.sandbox_counters()
        progress.started = counters["startsAccepted"] - _WARM_UP
        waiting = len(counters["runningNow"])
        if waiting >= progress.most_waiting:
            progress.most_waiting, progress.memory_bytes = waiting, system.memory_bytes(Component.WORKER)
        if progress.started >= _CALLS and not progress.all_started_after:
            progress.all_started_after = time.monotonic() - began
        await asyncio.sleep(1)
