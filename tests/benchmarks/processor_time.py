"""What a quick call takes of the processors, process by process, and of Temporal: events and billable actions.

Processor time hardly depends on what else the machine does, other than latency and throughput do.
"""

import asyncio
from collections.abc import Mapping

import psutil

from outlast.deploy.local.config import Component
from tests.benchmarks.dataset_read import Call, Contest, running_contest, turns
from tests.benchmarks.report import Figure, Finding, Target

RATIO_AT_MOST = Target("at most", 1.0)
ACTIONS_AT_MOST = Target("at most", 5)
EVENTS_AT_MOST = Target("at most", 8)

_WARM_UP = 30
_ROUNDS = 6
_CALLS = 25
_SETTLE_SECONDS = 0.5
"""What a call leaves to do, visibility above all, is done by then."""
_IDLE_SECONDS = 5.0


async def measure_processor_time() -> Finding:
    """Take turns in blocks of calls, and subtract what the processes take when nobody calls."""
    async with running_contest() as contest, contest.system.caller() as caller:

        async def through_rest() -> None:
            await contest.through_rest(caller)

        sides: dict[str, Call] = {
            "ours": through_rest,
            "bare": contest.bare,
            "local": contest.bare_local,
            "alone": contest.alone,
        }
        processes = _processes(contest)
        for call in sides.values():
            await _repeat(call, _WARM_UP)
        idle = await _idle(processes)
        taken = {side: dict.fromkeys(processes, 0.0) for side in sides}
        actions = dict.fromkeys(sides, 0.0)
        for number in range(_ROUNDS):
            for side in turns(list(sides), number):
                before = await contest.system.billable_actions()
                for process, milliseconds in (await _block(processes, sides[side], idle)).items():
                    taken[side][process] += milliseconds
                actions[side] += await contest.system.billable_actions() - before
        events = await _events(contest)
    return _finding({side: _per_call(spent) for side, spent in taken.items()}, _per_call(actions), events)


def _finding(spent: Mapping[str, Mapping[str, float]], actions: Mapping[str, float], events: int) -> Finding:
    sums = {side: sum(by_process.values()) for side, by_process in spent.items()}
    return Finding(
        "processor-time",
        (
            Figure("get-dataset-items through REST, all processes", sums["ours"], "ms"),
            *(Figure(f"the same, {process}", taken, "ms") for process, taken in spent["ours"].items() if taken > 0.1),
            Figure("bare workflow, all processes", sums["bare"], "ms"),
            Figure("the same, temporal", spent["bare"]["temporal"], "ms"),
            Figure("ratio", sums["ours"] / sums["bare"], "", RATIO_AT_MOST, "lower"),
            Figure("bare workflow with a local activity, all processes", sums["local"], "ms"),
            Figure("activity without a workflow, all processes", sums["alone"], "ms"),
            Figure("get-dataset-items through REST, history", events, "events", EVENTS_AT_MOST, "lower"),
            Figure(
                "get-dataset-items through REST, billable actions", actions["ours"], "actions", ACTIONS_AT_MOST, "lower"
            ),
            Figure("bare workflow, billable actions", actions["bare"], "actions"),
        ),
        {"calls": _ROUNDS * _CALLS, "warm_up": _WARM_UP, "order": "in turns"},
    )


def _processes(contest: Contest) -> Mapping[str, psutil.Process]:
    stack = contest.system.stack
    pids = {component.value: stack.pid(component) for component in Component}
    known = {name: psutil.Process(pid) for name, pid in pids.items() if pid is not None}
    return {**known, "bare worker": psutil.Process(contest.bare_worker_pid), "caller": psutil.Process()}


def _milliseconds(processes: Mapping[str, psutil.Process]) -> dict[str, float]:
    spent = {name: process.cpu_times() for name, process in processes.items()}
    return {name: (times.user + times.system) * 1000 for name, times in spent.items()}


async def _idle(processes: Mapping[str, psutil.Process]) -> dict[str, float]:
    """Milliseconds of processor time per second."""
    before = _milliseconds(processes)
    await asyncio.sleep(_IDLE_SECONDS)
    return {name: (spent - before[name]) / _IDLE_SECONDS for name, spent in _milliseconds(processes).items()}


async def _block(processes: Mapping[str, psutil.Process], call: Call, idle: Mapping[str, float]) -> dict[str, float]:
    """What a block of calls takes of each process, beyond what it takes anyway."""
    loop = asyncio.get_running_loop()
    before, began = _milliseconds(processes), loop.time()
    await _repeat(call, _CALLS)
    await asyncio.sleep(_SETTLE_SECONDS)
    seconds = loop.time() - began
    return {name: spent - before[name] - idle[name] * seconds for name, spent in _milliseconds(processes).items()}


def _per_call(spent: Mapping[str, float]) -> dict[str, float]:
    return {name: total / (_ROUNDS * _CALLS) for name, total in spent.items()}


async def _repeat(call: Call, times: int) -> None:
    for _ in range(times):
        await call()


async def _events(contest: Contest) -> int:
    """How long the history of a call of ours is."""
    async with contest.system.caller() as caller:
        task_id = await contest.through_rest(caller)
    described = await contest.system.temporal.get_workflow_handle(task_id).describe()
    return described.raw_description.workflow_execution_info.history_length
