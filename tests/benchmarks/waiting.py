"""2,000 Actor calls waiting at once on one worker: all answered, one run each, and what one waiting task weighs."""

import asyncio
import time
from contextlib import AsyncExitStack
from typing import Any

from deploy.local.config import Component
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System, running_system

_CALLS = 2_000
_CALLS_PER_SECOND = 20
_WAIT_SECONDS = 60
"""From the last call on. All runs end at about the same time, so that all answers are due at once."""
_WARM_UP = 20
_SLEEPER = "outlast/sleeper"


async def measure_waiting() -> Finding:
    """Start calls at an even pace, so that every run ends at the same moment, and collect every answer."""
    async with running_system(in_process=(_SLEEPER,), runs_at_once=_CALLS + 100) as system, AsyncExitStack() as stack:
        warm_up = [await stack.enter_async_context(system.caller()) for _ in range(_WARM_UP)]
        await asyncio.gather(*(_answer(caller, time.monotonic() + 2) for caller in warm_up))
        memory_before = system.memory_bytes(Component.WORKER)
        callers = [await stack.enter_async_context(system.caller()) for _ in range(_CALLS)]
        began = time.monotonic()
        end = began + _CALLS / _CALLS_PER_SECOND + _WAIT_SECONDS
        calls = [
            asyncio.create_task(_answer(caller, end, begin_at=began + number / _CALLS_PER_SECOND))
            for number, caller in enumerate(callers)
        ]
        await asyncio.sleep(end - 5 - time.monotonic())
        waiting, memory = await _waiting(system), system.memory_bytes(Component.WORKER)
        answers = await asyncio.gather(*calls)
        answered_after = time.monotonic() - end
        counters = await system.sandbox_counters()
    return Finding("waiting", _figures(waiting, memory, memory_before, answers, counters, answered_after), _SETTING)


_SETTING: dict[str, Any] = {
    "calls": _CALLS,
    "calls_per_second": _CALLS_PER_SECOND,
    "wait_seconds": _WAIT_SECONDS,
    "actor": f"{_SLEEPER}, inside the sandbox's process",
}


def _figures(
    waiting: int,
    memory: int,
    memory_before: int,
    answers: list[dict[str, Any]],
    counters: dict[str, Any],
    answered_after: float,
) -> tuple[Figure, ...]:
    succeeded = sum(answer["task"]["status"] == "completed" for answer in answers)
    runs = [len(runs) for runs in counters["operations"].values()]
    return (
        Figure("runs waited for at once", waiting, "runs", Target("exactly", _CALLS)),
        Figure("calls answered with what the run produced", succeeded, "calls", Target("exactly", _CALLS)),
        Figure("runs started", counters["startsAccepted"] - _WARM_UP, "runs", Target("exactly", _CALLS)),
        Figure("most runs of one call", max(runs), "runs", Target("exactly", 1)),
        Figure("worker's memory per waiting task", (memory - memory_before) / max(waiting, 1) / 1024, "KiB"),
        Figure("worker's memory with all waiting", memory / 2**20, "MiB"),
        Figure("last answer after the runs' end", answered_after, "s"),
    )


async def _waiting(system: System) -> int:
    return len((await system.sandbox_counters())["runningNow"])


async def _answer(caller: RestCaller, end: float, *, begin_at: float = 0) -> dict[str, Any]:
    """Call the sleeper so that it ends at `end`, and stay until the answer is there."""
    await asyncio.sleep(max(0, begin_at - time.monotonic()))
    run_input = {"seconds": max(1, end - time.monotonic()), "steps": 1, "rows": 1}
    arguments = {"actor": _SLEEPER, "input": run_input, "callOptions": {"memory": 128}}
    status, answer = await caller.post("/v1/tools/call-actor/call", {"arguments": arguments})
    while status == 202:
        status, answer = await caller.get(f"/v1/tasks/{answer['task']['id']}/result?wait=60")
    assert status == 200, answer
    return answer
