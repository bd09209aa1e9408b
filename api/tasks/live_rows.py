"""`TaskRows`: the rows of a task while its runs produce them, from the beginning or after any row.

The rows of a task are those of its runs, in the order of their starts. The platform keeps them, and this process reads
them for the caller; nothing is kept here, so a client goes on after the last row that it has wherever it asks.
"""

import asyncio
import itertools
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final, Self, TypeVar

from temporalio.client import Client

from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import classify
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.outputs.dataset_source import GrowingDataset, RowBatch
from outlast.activities.outputs.reader import Room
from outlast.activities.pacing import Looks
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.runs.contracts import RunState
from outlast.api.access.limits.unread_bytes import UnreadBytes
from outlast.api.errors import (
    ApiError,
    BadRequest,
    NoRows,
    OutputStoreUnavailable,
    PlatformUnavailable,
    RowsGone,
    RowsRefused,
    TaskDataUnavailable,
    TemporalUnavailable,
    Unauthenticated,
)
from outlast.api.outputs import StoredOutputs
from outlast.api.tasks.client import TaskClient
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.history import OUTAGE_PAUSE_SECONDS, OUTAGES
from outlast.api.temporal.task_events import position_of, task_events
from outlast.contracts.events import TaskEvent
from outlast.contracts.rows import RowsEnd
from outlast.contracts.tasks import Task
from outlast.workflows.contracts.tool_calls import TaskStatus

STORED = "output"
"""Stands for the task's stored output, where it has no dataset."""
_ID = re.compile(r"(?:([A-Za-z0-9_~-]{1,100})\.)?(\d{1,12})", re.ASCII)
SETTLE_SECONDS = 3.0
"""How long after the end of a run no further row has to come: replicas of the platform lag a few seconds."""
_LONG_AGO = timedelta(seconds=20)
"""What ended earlier has settled, also by clocks that differ."""
_NEW_RUN_GRACE = timedelta(minutes=1)
"""A dataset that has just been created may not be readable yet, as its run."""
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 5.0
_LAST_PAUSE_SECONDS = 0.5
_READS: Final = Looks(per_second=50)
"""Reads of this process for all who follow rows: with 1,000 streams, each shows new rows within 20 seconds."""
_PATIENCE_SECONDS = 300.0
"""How long the platform may fail to answer."""
_MISSING_SECONDS = 60.0
"""How long rows may be missing that the platform has counted."""
T = TypeVar("T")


@dataclass(frozen=True)
class RowPlace:
    """A place after `number` rows of a dataset; of all rows of the task where `source` is None."""

    source: str | None = None
    number: int = 0

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """The place that an id, or a number of rows, stands for; the beginning for None. Raises `BadRequest`."""
        if not text:
            return cls()
        found = _ID.fullmatch(text)
        if found is None:
            raise unknown_row(text)
        return cls(found[1], int(found[2]))

    def __str__(self) -> str:
        return f"{self.source}.{self.number}"


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
                    TaskStatus(task.status),
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
            yield LastRow(str(last), RowsEnd.of(TaskStatus(task.status), last.number, None))

        return chunks()


class TaskRuns:
    """The runs that a task has started, in the order of their starts, each in its last known state.

    The history tells them, whichever process followed the runs; during an outage of Temporal nothing new is known.
    """

    def __init__(self, client: Client, task_id: str, room: Room) -> None:
        """Know nothing yet. The history is read into `room`."""
        self._client = client
        self._task_id = task_id
        self._room = room
        self._runs: dict[str, RunState] = {}
        self._position = (0, 0)
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        self.is_over = False
        """Whether the task's workflow has ended, so that no further run will be started."""

    @classmethod
    @asynccontextmanager
    async def followed(cls, client: Client, task_id: str, room: Room) -> AsyncGenerator["TaskRuns"]:
        """The runs so far, and in the block those that follow. Raises an `ApiError`."""
        runs = cls(client, task_id, room)
        await runs._read(wait=False)
        reading = asyncio.create_task(runs._read_on())
        try:
            yield runs
        finally:
            reading.cancel()
            with suppress(asyncio.CancelledError):
                await reading

    @property
    def all(self) -> list[RunState]:
        """The runs that are known."""
        return list(self._runs.values())

    async def nth(self, index: int) -> RunState | None:
        """A run by its place, as soon as it is started; None when the task has ended without it."""
        while len(self._runs) <= index and not self.is_over:
            await self.change()
        return self.all[index] if len(self._runs) > index else None

    def is_past(self, index: int) -> bool:
        """Whether the task has done with this run: another one was started after it, or the task is over."""
        return self.is_over or len(self._runs) > index + 1

    async def change(self, *, within: float | None = None) -> None:
        """Return when something changes, or after `within` seconds. Raises what reading the history has raised."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                await self._changed.wait()
        self._changed.clear()
        if self._failure is not None:
            raise self._failure

    async def _read_on(self) -> None:
        try:
            await self._read(wait=True)
            self.is_over = True
        except Exception as error:  # noqa: BLE001  # raised again where a change is awaited
            self._failure = error
        self._changed.set()

    async def _read(self, *, wait: bool) -> None:
        with temporal_errors():
            events = task_events(self._client, self._task_id, after=self._position, wait=wait, room=self._room)
            async with aclosing(events):
                async for event in events:
                    self._position = position_of(event.id)
                    self._take(event)
                    del event

    def _take(self, event: TaskEvent) -> None:
        if event.name not in ("run_started", "run_finished"):
            return
        run = RunState.model_validate(event.data)
        self._runs[run.run_id] = run  # a dict keeps the order of the first assignments
        self._changed.set()


def unknown_row(text: str) -> BadRequest:
    """The error for a place that no stream of this task has told."""
    return BadRequest(
        f"{text[:50]!r} is not the id of a row of this task: pass the id of the last row received, the number of rows "
        "received so far, or nothing."
    )


@dataclass(frozen=True)
class RunOfTask:
    """One of the runs of a task, by its place among them."""

    runs: TaskRuns
    index: int

    @property
    def state(self) -> RunState:
        """Its last known state."""
        return self.runs.all[self.index]

    @property
    def is_past(self) -> bool:
        """Whether the task has done with it."""
        return self.runs.is_past(self.index)


class DatasetRows:
    """Reads the dataset of a run, for one client."""

    def __init__(self, run: RunOfTask, dataset: GrowingDataset, room: Room) -> None:
        """Read `dataset`, that of `run`, on from where it stands, into `room`."""
        self._run = run
        self._dataset = dataset
        self._room = room
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._last_news = time.monotonic()
        self._was_over = False
        self._trouble_since: float | None = None

    async def so_far(self) -> AsyncGenerator[RowBatch]:
        """The rows that are shown now. Raises an `ApiError` when they cannot be read for good.

        While the platform does not answer there are fewer of them, or none.
        """
        try:
            async with aclosing(self._dataset.new_rows_into(self._room)) as batches:
                async for batch in batches:
                    self._note_news()
                    yield batch
                    del batch
            self._trouble_since = None
        except Exception as error:
            envelope = classify(error)
            if isinstance(error, ApiError) or envelope.category is ErrorCategory.UNKNOWN:
                raise
            self._bear(envelope, error)

    async def to_the_end(self) -> AsyncGenerator[RowBatch]:
        """The rows as they come, until the task has done with the run and no further row is to come."""
        with _READS.follower():
            while True:
                is_past = self._run.is_past
                self._note_end()
                async with aclosing(self.so_far()) as batches:
                    async for batch in batches:
                        yield batch
                        del batch
                if is_past and self._trouble_since is None and await self._is_complete():
                    return
                pause = _LAST_PAUSE_SECONDS if is_past else self._pause_seconds
                await self._run.runs.change(within=_READS.pause_seconds(pause))
                self._pause_seconds = min(self._pause_seconds * 1.5, _LONGEST_PAUSE_SECONDS)

    def _note_news(self) -> None:
        self._last_news = time.monotonic()
        self._trouble_since = None
        self._pause_seconds = _FIRST_PAUSE_SECONDS

    def _note_end(self) -> None:
        """From its end on a run has to be silent for a while. A run that was resurrected has not ended any more."""
        is_over = self._run.state.is_final or self._run.runs.is_over
        if is_over and not self._was_over:
            self._last_news = time.monotonic()
        self._was_over = is_over

    async def _is_complete(self) -> bool:
        """Whether all rows were read of a run that the task has done with.

        Raises `RowsRefused` when the platform counts rows that it does not show within a minute.
        """
        silent = time.monotonic() - self._last_news
        if self._dataset.is_behind:
            if silent > _MISSING_SECONDS:
                raise RowsRefused(
                    f"Dataset {self._dataset.dataset_id} has {self._dataset.counted} rows, and the platform shows "
                    f"{self._dataset.offset} of them. Resume the stream after the last row that you have."
                )
            return False
        ended = self._run.state.finished_at
        if ended is not None and datetime.now(UTC) - ended > _LONG_AGO:
            return True
        if silent < SETTLE_SECONDS:
            return False
        try:
            await self._dataset.count()
        except Exception as error:
            envelope = classify(error)
            if envelope.category is ErrorCategory.UNKNOWN:
                raise
            if not envelope.retryable:
                raise _refusal(envelope, self._dataset.dataset_id) from error
            # Reads of rows count them as well: this is one more look, which must not keep a stream open for ever.
            return silent > _MISSING_SECONDS
        return not self._dataset.is_behind

    def _bear(self, envelope: ErrorEnvelope, error: Exception) -> None:
        """Go on after an error that should pass. Raises the `ApiError` for one that does not, or has lasted long."""
        now = time.monotonic()
        self._trouble_since = self._trouble_since or now
        if envelope.category is ErrorCategory.NOT_FOUND and self._is_new:
            grace = SETTLE_SECONDS if self._run.is_past else _NEW_RUN_GRACE.total_seconds()
            if now - self._trouble_since < grace:
                return
        if not envelope.retryable:
            raise _refusal(envelope, self._dataset.dataset_id) from error
        if now - self._trouble_since > _PATIENCE_SECONDS:
            raise PlatformUnavailable(f"The rows cannot be read: {envelope.message}") from error

    @property
    def _is_new(self) -> bool:
        began = self._run.state.started_at
        return began is not None and datetime.now(UTC) - began < _NEW_RUN_GRACE


def _refusal(envelope: ErrorEnvelope, dataset_id: str) -> ApiError:
    message = f"The rows in dataset {dataset_id} cannot be read: {envelope.message}"
    if envelope.category is ErrorCategory.NOT_FOUND:
        return RowsGone(f"{message} A stored output of the task may have them: see its result.")
    if envelope.category is ErrorCategory.AUTHENTICATION:
        return Unauthenticated(message)
    return RowsRefused(f"{message} {envelope.hint}" if envelope.hint else message)


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
