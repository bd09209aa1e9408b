"""The events of a session, read from its workflow's history. Needs no worker.

Every signal is one event. The workflow numbers them, and passes on the latest 200 when it continues as new.
"""

import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace

from pydantic import JsonValue
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionStatus

from outlast.activities.contracts import Caller
from outlast.activities.outputs.reader import Room
from outlast.api.access.limits.unread_bytes import UnreadBytes
from outlast.api.errors import SessionNotFound
from outlast.api.temporal.errors import parts_of_id, temporal_errors
from outlast.api.temporal.executions import owned
from outlast.api.temporal.history import RunFold, follow_history, time_of
from outlast.contracts.events import ConversationEvent
from outlast.workflows.contracts import sessions
from outlast.workflows.contracts.self_correction import SelfCorrection
from outlast.workflows.contracts.tool_calls import CallRefused, TaskCompleted

_ID = re.compile(r"([0-9a-f]{8})-(\d{1,12})", re.ASCII)


@dataclass
class _Position:
    """A follower's position: the session's first run, as a session may end and begin again, and the event."""

    life: str = ""
    number: int = 0


@dataclass(frozen=True)
class _Numbered:
    """An event and the life of its session."""

    life: str
    event: sessions.SessionEvent


class _SessionFold(RunFold[_Numbered]):
    _life = ""
    _next_number = 1
    _counted = SelfCorrection()

    async def events_of(self, entry: HistoryEvent) -> Iterable[_Numbered]:
        """The events of `entry`; for a run's first entry, the events that earlier runs passed on."""
        found: Iterable[sessions.SessionEvent] = ()
        if entry.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
            started = entry.workflow_execution_started_event_attributes
            state = await self.decode(started.input.payloads[0], sessions.SessionState)
            self._life = started.first_execution_run_id[-8:]  # the end is random; the beginning may be the time
            self._next_number, self._counted = state.next_number, state.self_correction
            found = state.events
        elif entry.event_type == EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
            found = await self._signaled(entry)
        return [_Numbered(self._life, event) for event in found]

    async def _signaled(self, entry: HistoryEvent) -> Iterable[sessions.SessionEvent]:
        signal = entry.workflow_execution_signaled_event_attributes
        event = sessions.SessionEvent(number=self._next_number, time=time_of(entry))
        match signal.signal_name:
            case name if name == sessions.TASK_COMPLETED_SIGNAL:
                completed = await self.decode(signal.input.payloads[0], TaskCompleted)
                self._counted, view = sessions.corrected(self._counted, completed)
                update = {"task_completed": completed, "self_correction": view}
            case name if name == sessions.CALL_REFUSED_SIGNAL:
                refused = await self.decode(signal.input.payloads[0], CallRefused)
                self._counted, view = sessions.corrected(self._counted, refused)
                update = {"call_refused": refused, "self_correction": view}
            case name if name == sessions.POSTED_SIGNAL:
                update = {"posted": await self.decode(signal.input.payloads[0], sessions.Posted)}
            case _:
                return ()
        self._next_number += 1
        return (event.model_copy(update=update),)


@dataclass(eq=False)
class SessionEvents:
    """Reads and follows events of sessions. Its methods raise `ApiError`s."""

    client: Client
    unread: UnreadBytes

    async def follow(
        self, caller: Caller, session_id: str, *, after: str | None = None
    ) -> AsyncGenerator[ConversationEvent] | None:
        """Events after the one with id `after`, as they happen, until the session ends.

        None if it has ended without further events. Raises `SessionNotFound`, `BadRequest` for an invalid id.
        """
        life, number = parts_of_id(_ID, after) or ("", "0")
        position = _Position(life, int(number))
        message = f"You have no session {session_id!r}. A session begins with the first call that names it."
        workflow_id = sessions.session_workflow_id(caller.id, session_id)
        described = await owned(self.client, workflow_id, caller, SessionNotFound(message))
        run_id = described.run_id or ""
        room = self.unread.room_of(caller.id)
        if described.status is WorkflowExecutionStatus.RUNNING:
            return self._stream(described.id, run_id, position, room, wait=True)
        with temporal_errors():
            async with aclosing(self._stream(described.id, run_id, position, room, wait=False)) as events:
                is_empty = await anext(events, None) is None
        return None if is_empty else self._stream(described.id, run_id, position, room, wait=False)

    async def _stream(
        self, workflow_id: str, run_id: str, after: _Position, room: Room, *, wait: bool
    ) -> AsyncGenerator[ConversationEvent]:
        """The events of one run after another. The stream is silent during an outage of Temporal."""
        converter, position = self.client.data_converter, replace(after)
        history = follow_history(
            self.client, workflow_id, run_id, lambda number: _SessionFold(converter, number), wait=wait, room=room
        )
        async with aclosing(history):
            async for numbered in history:
                number, life = numbered.event.number, numbered.life
                if position.life != life:
                    position.life, position.number = life, 0
                if number > position.number + 1:
                    yield ConversationEvent(name="events_missed", data={"count": number - position.number - 1})
                if number > position.number:
                    position.number = number
                    yield _as_streamed(numbered.event, life)
                del numbered


def _as_streamed(event: sessions.SessionEvent, life: str) -> ConversationEvent:
    """The event as clients receive it."""
    identity = f"{life}-{event.number}"
    if event.posted is None:
        call = event.task_completed or event.call_refused
        data = call.model_dump(mode="json", exclude_none=True) if call else {}
        if event.self_correction is not None:
            data["self_correction"] = event.self_correction.model_dump(mode="json", exclude_none=True)
        name = "call_refused" if event.call_refused else "task_completed"
        return ConversationEvent(name=name, id=identity, time=event.time, data=data)
    posted = event.posted
    data = posted.model_dump(mode="json", exclude_none=True, exclude={"kind", "text"})
    text: dict[str, JsonValue] = {"message" if posted.kind == "update" else "emoji": posted.text}
    return ConversationEvent(name=posted.kind, id=identity, time=event.time, data={**text, **data})
