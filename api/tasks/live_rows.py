"""`TaskRows`: the rows of a task's runs, in the order of their starts, while the runs produce them.

No state is kept here, so a client can continue after the last row that it has at any API process.
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

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope
from outlast.activities.failures.classify import classify
from outlast.activities.outputs.dataset_source import GrowingDataset, RowBatch
from outlast.activities.outputs.reader import Room
from outlast.activities.pacing import Looks
from outlast.activities.platform.apify_platform import ApifyPlatform
from outlast.activities.runs.contracts import RunState
from outlast.api import errors
from outlast.api.access.limits.caller_limits import UnreadBytes
from outlast.api.outputs import StoredOutputs
from outlast.api.tasks.client import TaskClient
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.history import OUTAGE_PAUSE_SECONDS, OUTAGES
from outlast.api.temporal.task_events import position_of, task_events
from outlast.contracts.tasks import RowsEnd, Task
from outlast.workflows.contracts.tool_calls import TaskStatus

STORED = "output"
"""Source of rows of a stored output, for a task without a dataset."""
_ID = re.compile(r"(?:([A-Za-z0-9_~-]{1,100})\.)?(\d{1,12})", re.ASCII)
SETTLE_SECONDS = 3.0
"""Time without further rows after the end of a run: replicas of the platform lag a few seconds."""
_LONG_AGO = timedelta(seconds=20)
"""Runs that ended earlier need no such time, even if clocks differ."""
_NEW_RUN_GRACE = timedelta(minutes=1)
"""Time for which a new dataset and its run may be unreadable."""
_FIRST_PAUSE_SECONDS = 1.0
_LONGEST_PAUSE_SECONDS = 5.0
_LAST_PAUSE_SECONDS = 0.5
_READS: Final = Looks(per_second=50)
"""Reads of this process for all who follow rows: with 1,000 streams, each shows new rows within 20 seconds."""
_PATIENCE_SECONDS = 300.0
"""Longest time for which the platform may fail to answer."""
_MISSING_SECONDS = 60.0
"""Longest time for which the platform may count rows that it does not show."""
T = TypeVar("T")


@dataclass(frozen=True)
class RowPlace:
    """A place after `number` rows of a dataset, or of all rows of the task if `source` is None."""

    source: str | None = None
    number: int = 0

    @classmethod
    def parse(cls, text: str | None) -> Self:
        """The place of an id or a number of rows; the beginning for None. Raises `BadRequest`."""
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
    """Consecutive rows. `lines` are JSON, each ended by a newline; `place` is that before the first."""

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
    """The end of the rows. `id` is that of the last one; None if there was none."""

    id: str | None
    end: RowsEnd


Rows = AsyncGenerator[RowChunk | LastRow]


@dataclass(eq=False)
class TaskRows:
    """Streams rows of callers' tasks."""

    client: Client
    tasks: TaskClient
    outputs: StoredOutputs
    platform: ApifyPlatform
    unread: UnreadBytes

    async def stream(self, caller: Caller, task_id: str, *, after: str | None = None, follow: bool = True) -> Rows:
        """The rows after the one with id `after`, each once, and a `LastRow`. With `follow`, also future ones.

        Raises `TaskNotFound`, `BadRequest` for an invalid id, and `NoRows` for an ended task without rows.
        """
        place = RowPlace.parse(after)
        task = await self.tasks.describe(caller, task_id)
        if task.finished_at is not None and task.run is None:
            return await self._stored(caller, task, place)
        return self._of_runs(caller, task_id, place, follow=follow)

    async def latest(self, caller: Caller, task_id: str) -> str | None:
        """The id of the last row so far; None if there is none, or if the platform does not answer."""
        run = (await self.tasks.describe(caller, task_id)).run
        if run is None:
            return None
        try:
            count = await GrowingDataset(self.platform.client(caller), run.dataset_id).count()
        except Exception as error:
            if classify(error).category is ErrorCategory.UNKNOWN:
                raise
            return None
        return str(RowPlace(run.dataset_id, count))

    async def _of_runs(self, caller: Caller, task_id: str, place: RowPlace, *, follow: bool) -> Rows:
        room = self.unread.room_of(caller.id)
        async with TaskRuns.followed(self.client, task_id, room) as runs:
            client, last = self.platform.client(caller), place
            async for run in _from_place(runs, place, wait=follow):
                dataset = GrowingDataset(client, run.state.dataset_id, offset=_offset(run, last))
                async with aclosing(_chunks(dataset, DatasetRows(run, dataset, room), follow=follow)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                        del chunk
                last = _after(dataset, last)
            is_without_run = runs.is_over and not runs.all
            run = runs.all[-1] if runs.all else None
        task = await _after_outages(lambda: self.tasks.describe(caller, task_id))
        is_complete = follow or task.finished_at is not None
        if is_without_run:
            async with aclosing(await _after_outages(lambda: self._stored(caller, task, place))) as stored:
                async for part in stored:
                    yield part
            return
        last_id, number = (str(last), last.number) if last.source is not None else (None, 0)
        end = RowsEnd.of(TaskStatus(task.status), number, task.run or run, is_complete=is_complete)
        yield LastRow(last_id, end)

    async def _stored(self, caller: Caller, task: Task, place: RowPlace) -> Rows:
        """The rows of a task that has started no run, when its answer was stored as rows. Raises `NoRows`."""
        answer = await self.tasks.answer(caller, task.id)
        locator = answer.result.locator if answer.result is not None else None
        reader = await self.outputs.open(caller, locator) if locator is not None else None
        if reader is None or reader.manifest.kind != "rows":
            raise errors.NoRows(f"Task {task.id} started no run, so it has no rows: its result has the answer.")
        if place.source not in (None, STORED):
            raise unknown_row(str(place))

        async def chunks() -> Rows:
            last = RowPlace(STORED, place.number)
            async with aclosing(self.outputs.guarded(reader.row_batches(place.number))) as batches:
                async for rows in batches:
                    yield RowChunk(last, b"".join(row + b"\n" for row in rows))
                    last = replace(last, number=last.number + len(rows))
                    del rows
            yield LastRow(str(last), RowsEnd.of(TaskStatus(task.status), last.number, None))

        return chunks()


@dataclass(eq=False)
class TaskRuns:
    """The runs that a task has started, from its history, in the order of their starts."""

    client: Client
    task_id: str
    room: Room

    def __post_init__(self) -> None:
        self._runs: dict[str, RunState] = {}
        self._position = (0, 0)
        self._changed = asyncio.Event()
        self._failure: Exception | None = None
        self.is_over = False
        """True if the task's workflow has ended, so that no further run will be started."""

    @classmethod
    @asynccontextmanager
    async def followed(cls, client: Client, task_id: str, room: Room) -> AsyncGenerator["TaskRuns"]:
        """The runs so far, and within the block those that follow. Raises an `ApiError`."""
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
        """The known runs."""
        return list(self._runs.values())

    async def nth(self, index: int) -> RunState | None:
        """A run by its place, as soon as it is started; None if the task has ended without it."""
        while len(self._runs) <= index and not self.is_over:
            await self.change()
        return self.all[index] if len(self._runs) > index else None

    async def change(self, *, within: float | None = None) -> None:
        """Wait for a change, for at most `within` seconds. Raises what reading the history has raised."""
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
            events = task_events(self.client, self.task_id, after=self._position, wait=wait, room=self.room)
            async with aclosing(events):
                async for event in events:
                    self._position = position_of(event.id)
                    if event.name in ("run_started", "run_finished"):
                        run = RunState.model_validate(event.data)
                        self._runs[run.run_id] = run  # a dict keeps the order of the first assignments
                        self._changed.set()
                    del event


def unknown_row(text: str) -> errors.BadRequest:
    """The error for an id that no stream of this task has sent."""
    return errors.BadRequest(
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
        """True if the task has started another run after it, or has ended."""
        return self.runs.is_over or len(self.runs.all) > self.index + 1


@dataclass(eq=False)
class DatasetRows:
    """Reads the dataset of a run, for one client."""

    run: RunOfTask
    dataset: GrowingDataset
    room: Room

    def __post_init__(self) -> None:
        self._pause_seconds = _FIRST_PAUSE_SECONDS
        self._last_news = time.monotonic()
        self._was_over = False
        self._trouble_since: float | None = None

    async def so_far(self) -> AsyncGenerator[RowBatch]:
        """The rows that the platform shows now. Raises an `ApiError` if they can never be read."""
        try:
            async with aclosing(self.dataset.new_rows_into(self.room)) as batches:
                async for batch in batches:
                    self._last_news, self._pause_seconds = time.monotonic(), _FIRST_PAUSE_SECONDS
                    self._trouble_since = None
                    yield batch
                    del batch
            self._trouble_since = None
        except Exception as error:
            envelope = classify(error)
            if isinstance(error, errors.ApiError) or envelope.category is ErrorCategory.UNKNOWN:
                raise
            self._bear(envelope, error)

    async def to_the_end(self) -> AsyncGenerator[RowBatch]:
        """The rows as they come, until the run is past and no further row will come."""
        with _READS.follower():
            while True:
                is_past = self.run.is_past
                self._note_end()
                async with aclosing(self.so_far()) as batches:
                    async for batch in batches:
                        yield batch
                        del batch
                if is_past and self._trouble_since is None and await self._is_complete():
                    return
                pause = _LAST_PAUSE_SECONDS if is_past else self._pause_seconds
                await self.run.runs.change(within=_READS.pause_seconds(pause))
                self._pause_seconds = min(self._pause_seconds * 1.5, _LONGEST_PAUSE_SECONDS)

    def _note_end(self) -> None:
        """Start the time without rows at the end of the run. A resurrected run may end again."""
        is_over = self.run.state.is_final or self.run.runs.is_over
        if is_over and not self._was_over:
            self._last_news = time.monotonic()
        self._was_over = is_over

    async def _is_complete(self) -> bool:
        """Return whether all rows of a past run were read. Raises `RowsRefused` for rows counted but not shown."""
        silent = time.monotonic() - self._last_news
        if self.dataset.is_behind:
            if silent > _MISSING_SECONDS:
                raise errors.RowsRefused(
                    f"Dataset {self.dataset.dataset_id} has {self.dataset.counted} rows, and the platform shows "
                    f"{self.dataset.offset} of them. Resume the stream after the last row that you have."
                )
            return False
        ended = self.run.state.finished_at
        if ended is not None and datetime.now(UTC) - ended > _LONG_AGO:
            return True
        if silent < SETTLE_SECONDS:
            return False
        try:
            await self.dataset.count()
        except Exception as error:
            envelope = classify(error)
            if envelope.category is ErrorCategory.UNKNOWN:
                raise
            if not envelope.retryable:
                raise _refusal(envelope, self.dataset.dataset_id) from error
            # Reads of rows count them as well, so this count must not keep a stream open for ever.
            return silent > _MISSING_SECONDS
        return not self.dataset.is_behind

    def _bear(self, envelope: ErrorEnvelope, error: Exception) -> None:
        """Tolerate a temporary error. Raises the `ApiError` for another one, or after a long time."""
        now, began = time.monotonic(), self.run.state.started_at
        self._trouble_since = self._trouble_since or now
        is_new = began is not None and datetime.now(UTC) - began < _NEW_RUN_GRACE
        if envelope.category is ErrorCategory.NOT_FOUND and is_new:
            grace = SETTLE_SECONDS if self.run.is_past else _NEW_RUN_GRACE.total_seconds()
            if now - self._trouble_since < grace:
                return
        if not envelope.retryable:
            raise _refusal(envelope, self.dataset.dataset_id) from error
        if now - self._trouble_since > _PATIENCE_SECONDS:
            raise errors.PlatformUnavailable(f"The rows cannot be read: {envelope.message}") from error


def _refusal(envelope: ErrorEnvelope, dataset_id: str) -> errors.ApiError:
    message = f"The rows in dataset {dataset_id} cannot be read: {envelope.message}"
    if envelope.category is ErrorCategory.NOT_FOUND:
        return errors.RowsGone(f"{message} A stored output of the task may have them: see its result.")
    if envelope.category is ErrorCategory.AUTHENTICATION:
        return errors.Unauthenticated(message)
    return errors.RowsRefused(f"{message} {envelope.hint}" if envelope.hint else message)


async def _after_outages(ask: Callable[[], Awaitable[T]]) -> T:
    """The answer, after an outage if there is one, because a client that has read all rows also needs the end."""
    while True:
        try:
            return await ask()
        except (errors.TemporalUnavailable, errors.TaskDataUnavailable, errors.OutputStoreUnavailable):
            await OUTAGES.pause(OUTAGE_PAUSE_SECONDS)


async def _from_place(runs: TaskRuns, place: RowPlace, *, wait: bool) -> AsyncGenerator[RunOfTask]:
    """The runs of the task from the one with the dataset of `place`. Raises `BadRequest` if none has it."""
    first = 0
    if place.source is not None:
        known = [run.dataset_id for run in runs.all]
        if place.source not in known:
            raise unknown_row(str(place))
        first = known.index(place.source)
    for index in itertools.count(first):
        if (not wait and len(runs.all) <= index) or await runs.nth(index) is None:
            return
        yield RunOfTask(runs, index)


def _offset(run: RunOfTask, last: RowPlace) -> int:
    """The number of rows of the run's dataset that the client has."""
    return last.number if last.source in (None, run.state.dataset_id) else 0


def _after(dataset: GrowingDataset, last: RowPlace) -> RowPlace:
    """The place after a dataset. The rest of a place without a source counts in the next dataset."""
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
