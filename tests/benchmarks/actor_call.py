"""A sync Actor call: how long its history is, and how many actions a hosted Temporal would bill for it."""

import asyncio
from collections.abc import Mapping

from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.system import System, running_system

EVENTS_AT_MOST = Target("at most", 30)
BYTES_AT_MOST = Target("at most", 15_000)

_CALLS = 20
_SLEEPER = "outlast/sleeper"
_SMALL: Mapping[str, int] = {"seconds": 1, "steps": 2, "rows": 1}
_FULL_PREVIEW: Mapping[str, int] = {"seconds": 1, "steps": 2, "rows": 40, "rowBytes": 120}
"""More rows than an answer previews, and more bytes: the largest answer that is not cut any shorter."""


async def measure_actor_call() -> Finding:
    """Call the sleeper, read the recorded history, and see how far the server's count of actions has moved."""
    async with running_system(in_process=(_SLEEPER,)) as system:
        await _histories(system, _SMALL, 2)
        before = await system.billable_actions()
        small = await _histories(system, _SMALL, _CALLS)
        actions = (await system.billable_actions() - before) / _CALLS
        full = await _histories(system, _FULL_PREVIEW, 3)
    return Finding(
        "actor-call",
        (
            Figure("history", max(events for events, _ in small + full), "events", EVENTS_AT_MOST, "lower"),
            Figure("history, one small row", max(size for _, size in small), "bytes", BYTES_AT_MOST, "lower"),
            Figure("history, largest preview of rows", max(size for _, size in full), "bytes", BYTES_AT_MOST, "lower"),
            Figure("billable actions per call", actions, "actions", better="lower"),
        ),
        {"calls": _CALLS, "actor": _SLEEPER, "input": dict(_SMALL), "largest_preview_input": dict(_FULL_PREVIEW)},
    )


async def _histories(system: System, run_input: Mapping[str, int], calls: int) -> list[tuple[int, int]]:
    """Events and bytes of the history of each of so many calls, made at the same time."""
    return list(await asyncio.gather(*(_history_of_call(system, run_input) for _ in range(calls))))


async def _history_of_call(system: System, run_input: Mapping[str, int]) -> tuple[int, int]:
    arguments = {"actor": _SLEEPER, "input": dict(run_input)}
    async with system.caller() as caller:
        status, answer = await caller.post("/v1/tools/call-actor/call", {"arguments": arguments})
    assert status == 200, answer
    assert answer["task"]["status"] == "completed", answer
    described = await system.temporal.get_workflow_handle(answer["task"]["id"]).describe()
    info = described.raw_description.workflow_execution_info
    return info.history_length, info.history_size_bytes
