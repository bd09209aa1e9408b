"""The runs of a task as its history tells them: those so far, and those to come."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager, suppress

from temporalio.client import Client

from outlast.activities.outputs.reader import Room
from outlast.activities.runs.contracts import RunState
from outlast.api.temporal.errors import temporal_errors
from outlast.api.temporal.task_events import position_of, task_events
from outlast.contracts.events import TaskEvent


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
