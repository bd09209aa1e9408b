"""The rows of one run's dataset, as they come: read again and again, through the platform's troubles, to the end."""

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

from outlast.activities.failures.classify import classify
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.outputs.dataset_source import GrowingDataset, RowBatch
from outlast.activities.outputs.reader import Room
from outlast.activities.pacing import Looks
from outlast.activities.runs.contracts import RunState
from outlast.api.errors import ApiError, PlatformUnavailable, RowsGone, RowsRefused, Unauthenticated
from outlast.api.tasks.live_rows.task_runs import TaskRuns

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
