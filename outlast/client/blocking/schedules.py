"""`client.schedules`."""

from datetime import datetime
from typing import Unpack

from outlast.client.blocking.transport import Stream, Transport
from outlast.client.contracts.schedules import Schedule
from outlast.client.flows import schedules
from outlast.client.flows.schedules import ScheduleOptions
from outlast.client.flows.server import Server


class Schedules:
    """Calls and batches that are started when they are due."""

    def __init__(self, server: Server, transport: Transport) -> None:
        self._server = server
        self._transport = transport

    def create(self, schedule_id: str, *, paused: bool = False, **options: Unpack[ScheduleOptions]) -> Schedule:
        """Have a `call`, a `batch` or a `saved` call started by `cron` expressions or `every_seconds`.

        Raises `InvalidRequest` when it does not fit, and `Conflict` when you have another schedule of this id.
        """
        return self._transport.run(schedules.create(self._server, schedule_id, options, paused=paused))

    def get(self, schedule_id: str) -> Schedule:
        """Return a schedule: when it is due next, and what came of its latest firings."""
        return self._transport.run(schedules.get(self._server, schedule_id))

    def list(self) -> Stream[Schedule]:
        """Iterate over your schedules, without the state of their firings. Pages are read as needed."""
        return self._transport.stream(schedules.listed(self._server))

    def update(self, schedule_id: str, **options: Unpack[ScheduleOptions]) -> Schedule:
        """Change what the options name; the rest stays."""
        return self._transport.run(schedules.update(self._server, schedule_id, options))

    def delete(self, schedule_id: str) -> None:
        """Delete a schedule. What it has started goes on."""
        self._transport.run(schedules.delete(self._server, schedule_id))

    def pause(self, schedule_id: str, reason: str | None = None) -> Schedule:
        """Have nothing due until the schedule is resumed."""
        return self._transport.run(schedules.change_state(self._server, schedule_id, "pause", reason))

    def resume(self, schedule_id: str, reason: str | None = None) -> Schedule:
        """Have a paused schedule go on."""
        return self._transport.run(schedules.change_state(self._server, schedule_id, "resume", reason))

    def trigger(self, schedule_id: str) -> Schedule:
        """Have it due now, also while it is paused. Its overlap policy holds; twice in a second is once."""
        return self._transport.run(schedules.change_state(self._server, schedule_id, "trigger"))

    def backfill(
        self, schedule_id: str, start: datetime, end: datetime, *, overlap: str | None = None
    ) -> tuple[datetime, ...]:
        """Have done what the schedule would have done in a part of time; return the moments, each a firing."""
        return self._transport.run(schedules.backfill(self._server, schedule_id, start, end, overlap))

    def times(
        self, schedule_id: str, start: datetime | None = None, end: datetime | None = None
    ) -> tuple[datetime, ...]:
        """Return when the schedule is due, or was, in a part of time: in the next seven days by default."""
        return self._transport.run(schedules.times(self._server, schedule_id, start, end))
