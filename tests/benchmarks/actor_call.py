"""A call of an Actor: how long its history is, and how many actions a hosted Temporal would bill for it."""

import asyncio
from collections.abc import Mapping

from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.system import System, running_system

EVENTS_AT_MOST = Target("at most", 15)
BYTES_AT_MOST = Target("at most", 8_000)
PREVIEW_BYTES_AT_MOST = Target("at most", 15_000)
ACTIONS_AT_MOST = Target("at most", 5)
ASYNC_ACTIONS_AT_MOST = Target("at most", 6)

_CALLS = 20
_SLEEPER = "outlast/sleeper"
_SMALL: Mapping[str, int] = {"seconds": 1, "steps": 2, "rows": 1}
_FULL_PREVIEW: Mapping[str, int] = {"seconds": 1, "steps": 2, "rows": 40, "rowBytes": 120}
"""More rows than an answer previews, and more bytes: the largest answer that is not cut any shorter."""


async def measure_actor_call() -> Finding:
    """Call the sleeper, read the recorded history, and see how far the server's count of actions has moved."""
    async with running_system(in_process=(_SLEEPER,)) as system:
        await _histories(system, _SMALL, 2)
        small, actions = await _counted(system, "default")
        asynchronous, async_actions = await _counted(system, "openai")
        full = await _histories(system, _FULL_PREVIEW, 3)
    return Finding(
        "actor-call",
        (
            Figure("history", max(events for events, _ in small), "events", EVENTS_AT_MOST, "lower"),
            Figure("its size, one small row", max(size for _, size in small), "bytes", BYTES_AT_MOST, "lower"),
            Figure("history, rows stored", max(events for events, _ in full), "events", better="lower"),
            Figure("its size", max(size for _, size in full), "bytes", PREVIEW_BYTES_AT_MOST, "lower"),
            Figure("billable actions per call", actions, "actions", ACTIONS_AT_MOST, "lower"),
            Figure("history, async", max(events for events, _ in asynchronous), "events", better="lower"),
            Figure("billable actions per async call", async_actions, "actions", ASYNC_ACTIONS_AT_MOST, "lower"),
        ),
        {"calls": _CALLS, "actor": _SLEEPER, "input": dict(_SMALL), "largest_preview_input": dict(_FULL_PREVIEW)},
    )


async def _counted(system: System, mode: str) -> tuple[list[tuple[int, int]], float]:
    """The histories of calls in a mode, and the actions that the server has counted for each."""
    before = await system.billable_actions()
    histories = await _histories(system, _SMALL, _CALLS, mode)
    return histories, (await system.billable_actions() - before) / _CALLS


async def _histories(
    system: System, run_input: Mapping[str, int], calls: int, mode: str = "default"
) -> list[tuple[int, int]]:
    """Events and bytes of the history of each of so many calls, made at the same time, when its run has ended."""
    return list(await asyncio.gather(*(_history_of_call(system, run_input, mode) for _ in range(calls))))


async def _history_of_call(system: System, run_input: Mapping[str, int], mode: str) -> tuple[int, int]:
    arguments = {"actor": _SLEEPER, "input": dict(run_input)}
    async with system.caller() as caller:
        status, answer = await caller.post("/v1/tools/call-actor/call", {"arguments": arguments, "mode": mode})
    assert status == 200, answer
    assert answer["task"]["status"] == "completed", answer
    handle = system.temporal.get_workflow_handle(answer["task"]["id"])
    await handle.result()
    described = await handle.describe()
    info = described.raw_description.workflow_execution_info
    return info.history_length, info.history_size_bytes
