"""`TaskRows`: the rows of a task for the front doors, from the beginning or after any row, as they come.

The rows of a task are those of its runs, in the order of their starts. The platform keeps them, and this process reads
them for the caller; nothing is kept here, so a client goes on after the last row that it has wherever it asks.
"""

import itertools
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import TypeVar

from temporalio.client import Client

from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import classify
from outlast.activities.failures.contracts import ErrorCategory
from outlast.activities.outputs.dataset_source import GrowingDataset
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.api.access.limits.unread_bytes import UnreadBytes
from outlast.api.errors import NoRows, OutputStoreUnavailable, TaskDataUnavailable, TemporalUnavailable
from outlast.api.outputs import StoredOutputs
from outlast.api.tasks.client import TaskClient
from outlast.api.tasks.live_rows.dataset_rows import DatasetRows, RunOfTask
from outlast.api.tasks.live_rows.row_ids import STORED, RowPlace, unknown_row
from outlast.api.tasks.live_rows.task_runs import TaskRuns
from outlast.api.temporal.history import OUTAGE_PAUSE_SECONDS
from outlast.api.temporal.looks import OUTAGES
from outlast.contracts.rows import RowsEnd
from outlast.contracts.tasks import Task


@dataclass(frozen=True)
class RowChunk:
    """Rows that follow each other. `lines` are JSON, each ended by a newline; `place` is that before the first."""

    place: RowPlace
    lines: bytes

    def rows(self) -> Iterator[tuple[str, bytes]]:
        """Each row as a line of JSON, with its id."""
        source, number, start = self.place.source, self.place.number, 0
        while (end := self.lines.find(b"\n", start)) >= 0:
            number += 1
            yield f"{source}.{number}", self.lines[start:end]
            start = end + 1


@dataclass(frozen=True)
class LastRow:
    """That no further row comes. `id` is that of the last one; None when there was none."""

    id: str | None
    end: RowsEnd


T = TypeVar("T")
Rows = AsyncGenerator[RowChunk | LastRow]


class TaskRows:
    """Streams rows of callers' tasks."""

    def __init__(
        self,
        client: Client,
        tasks: TaskClient,
        outputs: StoredOutputs,
        platform: ApifyPlatform,
        unread: UnreadBytes,
    ) -> None:
        """Read histories through `client`, datasets of the `platform`, and `outputs` of tasks without a run.

        Rows are read on within what their callers may leave `unread`.
        """
        self._client = client
        self._tasks = tasks
        self._outputs = outputs
        self._platform = platform
        self._unread = unread

    async def stream(self, caller: Caller, task_id: str, *, after: str | None = None, follow: bool = True) -> Rows:
        """The rows after the one with id `after`, each once, and a `LastRow`. With `follow`, also those to come.

        Raises `TaskNotFound`, `BadRequest` for an id that is none, and `NoRows` for an ended task without rows. The
        rows themselves raise the `ApiError` that ends them.
        """
        place = RowPlace.parse(after)
        task = await self._tasks.describe(caller, task_id)
        if task.finished_at is not None and task.run is None:
            return await self._stored(caller, task, place)
        return self._of_runs(caller, task_id, place, follow=follow)

    async def latest(self, caller: Caller, task_id: str) -> str | None:
        """The id of the last row so far; None when there is none, or when it is not known now."""
        run = (await self._tasks.describe(caller, task_id)).run
        if run is None:
            return None
        try:
            count = await GrowingDataset(self._platform.client(caller), run.dataset_id).count()
        except Exception as error:
            if classify(error).category is ErrorCategory.UNKNOWN:
                raise
            return None
        return str(RowPlace(run.dataset_id, count))

    async def _of_runs(self, caller: Caller, task_id: str, place: RowPlace, *, follow: bool) -> Rows:
        room = self._unread.room_of(caller.id)
        async with TaskRuns.followed(self._client, task_id, room) as runs:
            client, last = self._platform.client(caller), place
            async for run in _from_place(runs, place, wait=follow):
                dataset = GrowingDataset(client, run.state.dataset_id, offset=_offset(run, last))
                async with aclosing(_chunks(dataset, DatasetRows(run, dataset, room), follow=follow)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                        del chunk
                last = _after(dataset, last)
            is_without_run = runs.is_over and not runs.all
            run = runs.all[-1] if runs.all else None
        task = await _after_outages(lambda: self._tasks.describe(caller, task_id))
        is_complete = follow or task.finished_at is not None
        if is_without_run:
            async with aclosing(await _after_outages(lambda: self._stored(caller, task, place))) as stored:
                async for part in stored:
                    yield part
        else:
            yield LastRow(
                str(last) if last.source is not None else None,
                RowsEnd.of(
                    task.status,
                    last.number if last.source is not None else 0,
                    task.run or run,
                    is_complete=is_complete,
                ),
            )

    async def _stored(self, caller: Caller, task: Task, place: RowPlace) -> Rows:
        """The rows of a task that has started no run, when its answer was stored as rows. Raises `NoRows`."""
        answer = await self._tasks.answer(caller, task.id)
        locator = answer.result.locator if answer.result is not None else None
        reader = await self._outputs.open(caller, locator) if locator is not None else None
        if reader is None or reader.manifest.kind != "rows":
            raise NoRows(f"Task {task.id} started no run, so it has no rows: its result has the answer.")
        if place.source not in (None, STORED):
            raise unknown_row(str(place))

        async def chunks() -> Rows:
            last = RowPlace(STORED, place.number)
            async with aclosing(self._outputs.guarded(reader.row_batches(place.number))) as batches:
                async for rows in batches:
                    yield RowChunk(last, b"".join(row + b"\n" for row in rows))
                    last = replace(last, number=last.number + len(rows))
                    del rows
            yield LastRow(str(last), RowsEnd.of(task.status, last.number, None))

        return chunks()


async def _after_outages(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, as soon as there is one: a client that has read all rows is not to be cut off before the end."""
    while True:
        try:
            return await ask()
        except (TemporalUnavailable, TaskDataUnavailable, OutputStoreUnavailable):
            await OUTAGES.pause(OUTAGE_PAUSE_SECONDS)


async def _from_place(runs: TaskRuns, place: RowPlace, *, wait: bool) -> AsyncGenerator[RunOfTask]:
    """The runs of the task, from the one on whose dataset `place` names. Raises `BadRequest` when none has it."""
    first = 0
    if place.source is not None:
        known = [run.dataset_id for run in runs.all]
        if place.source not in known:
            raise unknown_row(str(place))
        first = known.index(place.source)
    for index in itertools.count(first):
        if not wait and len(runs.all) <= index:
            return
        if await runs.nth(index) is None:
            return
        yield RunOfTask(runs, index)


def _offset(run: RunOfTask, last: RowPlace) -> int:
    """How many rows of the run's dataset the client has."""
    return last.number if last.source in (None, run.state.dataset_id) else 0


def _after(dataset: GrowingDataset, last: RowPlace) -> RowPlace:
    """The place behind a dataset that was read. What is left of a mere number of rows counts in the next one."""
    end = max(dataset.counted, 0)
    if last.source is None and dataset.offset == last.number > end:
        return RowPlace(None, last.number - end)
    return RowPlace(dataset.dataset_id, dataset.offset)


async def _chunks(dataset: GrowingDataset, rows: DatasetRows, *, follow: bool) -> AsyncGenerator[RowChunk]:
    async with aclosing(rows.to_the_end() if follow else rows.so_far()) as batches:
        async for batch in batches:
            chunk = RowChunk(RowPlace(dataset.dataset_id, dataset.offset - batch.rows), batch.lines)
            del batch
            yield chunk
            del chunk
