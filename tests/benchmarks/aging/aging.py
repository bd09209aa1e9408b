"""A stack whose Temporal server keeps 100,000 finished tasks, beside a fresh one: calls, lists, start, disk, retention.

2,000 of the tasks are called through REST; the others are copies of these in the server's file, see `finished_task`.
"""

import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx

from tests.benchmarks.aging.finished_task import FinishedTask
from tests.benchmarks.aging.task_file import TaskFile
from tests.benchmarks.report import Figure, Finding, Target
from tests.benchmarks.rest_caller import RestCaller
from tests.benchmarks.system import System, new_data_dir, running_system
from tests.support.eventually import eventually

_TOOL = "get-dataset-items"
_ROWS = [{"url": f"https://example.com/{number}", "title": f"Page {number}", "text": "x" * 180} for number in range(4)]
"""1 KB as JSON."""
_CALLERS = 16
_WARM_UP, _ROUNDS = 30, 200
_LISTS = 40
_LIST_AT_MOST_MS = Target("at most", 100)
_PAGE, _STEP = 50, 200
_FAILED = "list of the failed: none"
"""More than one condition: the server reads all that the caller ever did, see docs/performance.md."""
_COMPLETED = "WorkflowType = 'ToolCallWorkflow' AND ExecutionStatus = 'Completed'"
_REUSED = Target("at most", 1.01)
_READINGS = 5
_READING_KEPT_SECONDS = 2.1
_RETENTION = timedelta(days=30)
_SEED = 1
_PATIENCE_SECONDS = 1_800.0
_ASK_AGAIN_SECONDS = 0.25


@dataclass(frozen=True)
class Scale:
    """How many tasks there are."""

    called: int = 2_000
    tasks: int = 100_000
    expiring: int = 5_000
    """Those of them whose retention ends while the stack runs."""
    far_page: int = 501
    """The number of a page of 50 that is read besides the first, on which are copies only."""


@dataclass(frozen=True)
class _Disk:
    bytes_per_task: float
    full: int
    """The file with all tasks."""
    freed_per_task: float
    """What was free in it when retention had removed some, per task that it then had less."""
    refilled: float
    """The file when it had as many tasks again, against what it was then."""


async def measure_aging(scale: Scale = Scale()) -> Finding:
    """Age a file, then run it beside a fresh one."""
    with new_data_dir() as data_dir:
        file = TaskFile(data_dir / "temporal" / "temporal.db")
        dataset_id = await _called(data_dir, scale.called)
        file.checkpoint()
        bytes_per_task = file.size_bytes / scale.called
        originals = file.finished_tasks(_TOOL)
        chance = random.Random(_SEED)
        ids = file.add(_copies(originals, scale.tasks - len(originals), chance))
        full = file.size_bytes
        beside = await _beside_a_fresh_one(data_dir, dataset_id, ids, scale)
        expiring = file.let_expire(scale.expiring, datetime.now(UTC) + timedelta(seconds=30))
        before, tasks = file.size_bytes, file.count()
        removal = await _retention(data_dir, dataset_id, expiring, tasks - scale.expiring)
        file.checkpoint()
        removed, free = tasks - file.count(), file.free_bytes()
        file.add(_copies(originals, removed, chance))
        disk = _Disk(bytes_per_task, full, free / removed, file.size_bytes / before)
    return Finding("aging", (*beside, *removal, *_of_disk(disk)), {"tasks": scale.tasks, "called": scale.called})


async def _called(data_dir: Path, count: int) -> str:
    """Have so many tasks called through REST, and the stack stopped; the dataset that they read."""
    async with running_system(on=data_dir) as system, AsyncExitStack() as stack:
        dataset_id = await system.new_dataset(_ROWS)
        callers = [await stack.enter_async_context(system.caller()) for _ in range(_CALLERS)]
        left = iter(range(count))

        async def keep_calling(caller: RestCaller) -> None:
            for _ in left:
                await _call(caller, dataset_id)

        await asyncio.gather(*map(keep_calling, callers))
        # What a call leaves to do is done when visibility has its end.
        await eventually(lambda: _counted(system, count))
    return dataset_id


def _copies(originals: Sequence[FinishedTask], count: int, chance: random.Random) -> Iterator[FinishedTask]:
    """Tasks that ended in equal distances until a minute before the originals, the earliest first."""
    span = (_RETENTION - timedelta(days=1)).total_seconds()
    for number in range(count):
        yield chance.choice(originals).copy(60 + round(span * (count - number) / count), chance)


async def _beside_a_fresh_one(data_dir: Path, dataset_id: str, ids: Sequence[str], scale: Scale) -> tuple[Figure, ...]:
    """The two take turns, call by call and list by list."""
    async with AsyncExitStack() as stack:
        began = time.monotonic()
        fresh = await stack.enter_async_context(running_system())
        between = time.monotonic()
        aged = await stack.enter_async_context(running_system(on=data_dir))
        ready = time.monotonic()
        datasets = {fresh: await fresh.new_dataset(_ROWS), aged: dataset_id}
        callers = {system: await stack.enter_async_context(system.caller()) for system in datasets}
        real = await _answer_as_tasks(aged, callers[aged], ids)
        calls: dict[System, list[float]] = {fresh: [], aged: []}
        for number in range(_WARM_UP + _ROUNDS):
            for system in (fresh, aged) if number % 2 else (aged, fresh):
                calls[system].append(await _milliseconds(_call(callers[system], datasets[system])))
        lists = await _list_times(callers[aged], frozenset(ids), scale.far_page)
        readings = {system: await _reading_times(callers[system]) for system in datasets}
    median = statistics.median
    ours, theirs = calls[aged][_WARM_UP:], calls[fresh][_WARM_UP:]
    return (
        Figure("copies of tasks that answer as tasks do", real, "of 3", Target("exactly", 3)),
        Figure("quick call, median", median(ours), "ms"),
        Figure("the same on a fresh stack, median", median(theirs), "ms"),
        Figure("ratio of the medians", median(ours) / median(theirs), "", Target("at most", 1.2), "lower"),
        Figure("quick call, 95th percentile", _percentile95(ours), "ms"),
        Figure("the same on a fresh stack, 95th percentile", _percentile95(theirs), "ms"),
        *lists,
        Figure("what `outlast top` shows, median", median(readings[aged]), "ms"),
        Figure("the same on a fresh stack, median", median(readings[fresh]), "ms"),
        Figure("start of the stack", ready - between, "s", Target("at most", 5)),
        Figure("start of a fresh stack", between - began, "s"),
    )


async def _answer_as_tasks(aged: System, caller: RestCaller, ids: Sequence[str]) -> int:
    """How many of three copies, the first, one from the middle and the last, are tasks to whoever asks for them."""
    return sum([await _answers_as_task(aged, caller, one) for one in (ids[0], ids[len(ids) // 2], ids[-1])])


async def _answers_as_task(aged: System, caller: RestCaller, task_id: str) -> bool:
    _, task = await caller.get(f"/v1/tasks/{task_id}")
    _, answer = await caller.get(f"/v1/tasks/{task_id}/result")
    async with httpx.AsyncClient(base_url=str(aged.stack.addresses.api_url), trust_env=False) as http:
        events = (await http.get(f"/v1/tasks/{task_id}/events")).raise_for_status().text
    has_result = answer["result"]["structured"]["items"] == _ROWS
    return task["status"] == "completed" and has_result and "event: task_completed" in events


async def _list_times(caller: RestCaller, copies: frozenset[str], far_page: int) -> tuple[Figure, ...]:
    """The first page, the far page, and pages of which there are few or none."""
    first, far = "/v1/tasks?page_size=50", await _far_page(caller, far_page)
    _, page = await caller.get(far)
    assert all(task["id"] in copies for task in page["tasks"])
    paths = {
        "list page of 50": first,
        f"list page of 50, page {far_page}": far,
        "list of a session that has no task": f"{first}&session_id=none",
        "list of the cancelled: none": f"{first}&status=cancelled",
        "list of a tool that was never called": f"{first}&tool=call-actor",
        _FAILED: f"{first}&status=failed",
    }
    figures: list[Figure] = []
    for name, path in paths.items():
        taken = [await _milliseconds(_get(caller, path)) for _ in range(_LISTS)]
        _, page = await caller.get(path)
        assert len(page["tasks"]) == (_PAGE if path in (first, far) else 0), path
        target = None if name == _FAILED else _LIST_AT_MOST_MS
        figures.append(Figure(f"{name}, median", statistics.median(taken), "ms"))
        figures.append(Figure("the same, 95th percentile", _percentile95(taken), "ms", target))
    return tuple(figures)


async def _far_page(caller: RestCaller, number: int) -> str:
    """The path of a page, found in larger steps."""
    token = None
    for _ in range((number - 1) * _PAGE // _STEP):
        _, page = await caller.get(f"/v1/tasks?page_size={_STEP}" + (f"&page_token={token}" if token else ""))
        token = page["next_page_token"]
    return f"/v1/tasks?page_size={_PAGE}&page_token={token}"


async def _reading_times(caller: RestCaller) -> list[float]:
    """Each is asked for when the one before is not kept any more."""
    taken: list[float] = []
    for _ in range(_READINGS):
        taken.append(await _milliseconds(_get(caller, "/v1/operations")))
        await asyncio.sleep(_READING_KEPT_SECONDS)
    return taken


async def _retention(data_dir: Path, dataset_id: str, expiring: Sequence[str], left: int) -> tuple[Figure, ...]:
    """The server removes what has expired, while quick calls go on."""
    async with running_system(on=data_dir) as system, system.caller() as caller:
        taken: list[float] = []
        began = time.monotonic()
        while (await system.temporal.count_workflows(_COMPLETED)).count > left + len(taken):
            assert time.monotonic() - began < _PATIENCE_SECONDS
            taken.append(await _milliseconds(_call(caller, dataset_id)))
        seconds = time.monotonic() - began
        gone = [await _is_gone(caller, one) for one in expiring]
    return (
        Figure("tasks that retention removed", sum(gone), "tasks", Target("exactly", len(expiring))),
        Figure("from the end of their retention until they were gone", seconds, "s"),
        Figure("quick call meanwhile, median", statistics.median(taken), "ms"),
        Figure("quick call meanwhile, 95th percentile", _percentile95(taken), "ms"),
    )


async def _is_gone(caller: RestCaller, task_id: str) -> bool:
    """So many are asked for in a row that the API tells the caller to come back (429); it does so."""
    while True:
        status, answer = await caller.get(f"/v1/tasks/{task_id}")
        if status != 429:
            assert status in (200, 404), answer
            return status == 404
        await asyncio.sleep(_ASK_AGAIN_SECONDS)


def _of_disk(disk: _Disk) -> tuple[Figure, ...]:
    return (
        Figure("disk per quick task", disk.bytes_per_task / 1000, "KB", better="lower"),
        Figure("the file with all tasks", disk.full / 1e6, "MB"),
        Figure("free in it after retention, per task that it has less", disk.freed_per_task / 1000, "KB"),
        Figure("the file with as many tasks again, against before", disk.refilled, "", _REUSED, "lower"),
    )


async def _call(caller: RestCaller, dataset_id: str) -> None:
    status, answer = await caller.post(f"/v1/tools/{_TOOL}/call", {"arguments": {"datasetId": dataset_id}})
    assert status == 200, answer


async def _get(caller: RestCaller, path: str) -> None:
    status, answer = await caller.get(path)
    assert status == 200, answer


async def _counted(system: System, count: int) -> bool:
    return (await system.temporal.count_workflows(_COMPLETED)).count == count


async def _milliseconds(call: Awaitable[None]) -> float:
    began = time.perf_counter()
    await call
    return (time.perf_counter() - began) * 1000


def _percentile95(values: list[float]) -> float:
    return statistics.quantiles(values, n=20)[-1]
