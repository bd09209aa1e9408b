"""`client.schedules` and `client.saved_calls` of `AsyncClient`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Unpack

from pydantic import JsonValue

from outlast.client.asynchronous.tasks import AsyncTasks
from outlast.client.asynchronous.transport import AsyncStream, AsyncTransport
from outlast.client.http import HttpRequest, idempotency, path, query
from outlast.client.requests import SCHEDULES_PAGE_SIZE, START_SECONDS, given, saved_call_body, schedule_body
from outlast.contracts.answers import TaskAnswer
from outlast.contracts.options import Body, SavedCallOptions, ScheduleOptions, moment
from outlast.contracts.schedules import DueTimes, SavedCall, SavedCallList, Schedule, SchedulePage
from outlast.contracts.tasks import Task


class AsyncSchedules:
    """Calls and batches that are started when they are due."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def create(self, schedule_id: str, *, paused: bool = False, **options: Unpack[ScheduleOptions]) -> Schedule:
        """Start a `call`, a `batch` or a `saved` call by `cron` expressions or `every_seconds`.

        Raises `InvalidRequest` when it does not fit, and `Conflict` when you have another schedule of this id.
        """
        body = schedule_body(options, known=("paused",)) | {"id": schedule_id}
        body |= {"paused": True} if paused else {}
        wanted = HttpRequest("POST", path("schedules"), body=body, timeout_seconds=START_SECONDS)
        return await self._transport.fetch(Schedule, wanted)

    async def get(self, schedule_id: str) -> Schedule:
        """Return a schedule: its next times, and the results of its latest firings."""
        return await self._transport.fetch(Schedule, HttpRequest("GET", path("schedules", schedule_id)))

    def list(self) -> AsyncStream[Schedule]:
        """Iterate over your schedules, without the state of their firings. Pages are read as needed."""
        return self._transport.listed(
            SchedulePage,
            lambda size, token: HttpRequest("GET", path("schedules"), query(page_size=size, page_token=token)),
            lambda page: (page.schedules, page.next_page_token),
            page_size=SCHEDULES_PAGE_SIZE,
        )

    async def update(self, schedule_id: str, **options: Unpack[ScheduleOptions]) -> Schedule:
        """Change what the options name; the rest stays."""
        body = schedule_body(options)
        wanted = HttpRequest("PATCH", path("schedules", schedule_id), body=body, timeout_seconds=START_SECONDS)
        return await self._transport.fetch(Schedule, wanted)

    async def delete(self, schedule_id: str) -> None:
        """Delete a schedule. Tasks and batches that it has started continue."""
        await self._transport.delete(path("schedules", schedule_id))

    async def pause(self, schedule_id: str, reason: str | None = None) -> Schedule:
        """Pause a schedule: nothing is due until it is resumed."""
        return await self._change(schedule_id, "pause", reason)

    async def resume(self, schedule_id: str, reason: str | None = None) -> Schedule:
        """Resume a paused schedule."""
        return await self._change(schedule_id, "resume", reason)

    async def trigger(self, schedule_id: str) -> Schedule:
        """Start it now, also while it is paused. Its overlap policy applies; twice within a second counts once."""
        return await self._change(schedule_id, "trigger")

    async def backfill(
        self, schedule_id: str, start: datetime, end: datetime, *, overlap: str | None = None
    ) -> tuple[datetime, ...]:
        """Start the firings that were due between `start` and `end`; return their times."""
        body = given(start=moment(start), end=moment(end), overlap=overlap)
        wanted = HttpRequest("POST", path("schedules", schedule_id, "backfill"), body=body)
        return (await self._transport.fetch(DueTimes, wanted)).times

    async def times(
        self, schedule_id: str, start: datetime | None = None, end: datetime | None = None
    ) -> tuple[datetime, ...]:
        """Return the times between `start` and `end` when the schedule is due, or was. Default: the next seven days."""
        params = query(start=start and moment(start), end=end and moment(end))
        wanted = HttpRequest("GET", path("schedules", schedule_id, "times"), params)
        return (await self._transport.fetch(DueTimes, wanted)).times

    async def _change(self, schedule_id: str, verb: str, reason: str | None = None) -> Schedule:
        body: Body | None = {"reason": reason} if reason else None
        return await self._transport.fetch(
            Schedule, HttpRequest("POST", path("schedules", schedule_id, verb), body=body)
        )


class AsyncSavedCalls:
    """A tool and its input under a name."""

    def __init__(self, transport: AsyncTransport) -> None:
        self._transport = transport

    async def save(
        self,
        name: str,
        tool: str,
        arguments: Mapping[str, JsonValue] | None = None,
        **options: Unpack[SavedCallOptions],
    ) -> SavedCall:
        """Save a call of `tool` (or of an Actor, as `user/name`) under a name, in place of an earlier one."""
        body = saved_call_body(tool, arguments, options)
        return await self._transport.fetch(SavedCall, HttpRequest("PUT", path("saved-calls", name), body=body))

    async def get(self, name: str) -> SavedCall:
        """Return a saved call; secrets in it are masked."""
        return await self._transport.fetch(SavedCall, HttpRequest("GET", path("saved-calls", name)))

    async def list(self) -> tuple[SavedCall, ...]:
        """Return your saved calls, by name."""
        return (await self._transport.fetch(SavedCallList, HttpRequest("GET", path("saved-calls")))).saved_calls

    async def delete(self, name: str) -> None:
        """Delete a saved call. Schedules of it then have nothing to start."""
        await self._transport.delete(path("saved-calls", name))

    async def start(
        self, name: str, arguments: Mapping[str, JsonValue] | None = None, *, idempotency_key: str | None = None
    ) -> Task:
        """Start a saved call, with `arguments` over its own, and return at once."""
        body: Body = {"arguments": dict(arguments or {})}
        wanted = HttpRequest("POST", path("saved-calls", name, "run"), headers=idempotency(idempotency_key), body=body)
        return await self._transport.fetch(Task, wanted)

    async def call(
        self,
        name: str,
        arguments: Mapping[str, JsonValue] | None = None,
        *,
        timeout_seconds: float | None = None,
        idempotency_key: str | None = None,
    ) -> TaskAnswer:
        """Start a saved call, with `arguments` over its own, and wait for its answer. Raises `TaskFailed`,
        `WaitTimedOut`.
        """
        task = await self.start(name, arguments, idempotency_key=idempotency_key)
        return await AsyncTasks(self._transport).wait(task.id, timeout_seconds=timeout_seconds)
