"""The events of a session, read from its workflow's history.

Every signal that the session received is one event. The workflow numbers them and passes on the latest 200 when it
continues as new, so the numbers continue from run to run. Events are readable while no worker is alive.
"""

import re
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from dataclasses import dataclass, replace

from pydantic import JsonValue
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus

from outlast.activities.contracts import Caller
from outlast.activities.outputs.reader import Room
from outlast.api.access.limits.unread_bytes import UnreadBytes
from outlast.api.errors import SessionNotFound
from outlast.api.temporal.errors import temporal_errors, unknown_event_id
from outlast.api.temporal.history import RunFold, follow_history, time_of
from outlast.api.temporal.task_view import owner_of
from outlast.contracts.events import ConversationEvent
from outlast.workflows.contracts.self_correction import SelfCorrection
from outlast.workflows.contracts.sessions import (
    CALL_REFUSED_SIGNAL,
    POSTED_SIGNAL,
    TASK_COMPLETED_SIGNAL,
    Posted,
    SessionEvent,
    SessionState,
    corrected,
    session_workflow_id,
)
from outlast.workflows.contracts.tool_calls import CallRefused, TaskCompleted

_ID = re.compile(r"([0-9a-f]{8})-(\d{1,12})", re.ASCII)


@dataclass
class _Position:
    """A follower's position: the life of the session (from its first run to its end), and the event in it."""

    life: str = ""
    number: int = 0


@dataclass(frozen=True)
class _Numbered:
    """An event and the life of the session to which it belongs."""

    life: str
    event: SessionEvent


class _SessionFold(RunFold[_Numbered]):
    _life = ""
    _next_number = 1
    _counted = SelfCorrection()

    async def events_of(self, entry: HistoryEvent) -> Iterable[_Numbered]:
        """The events of `entry`; for a run's first entry, the events that earlier runs passed on."""
        match entry.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                found = await self._started(entry)
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                found = await self._signaled(entry)
            case _:
                found = ()
        return [_Numbered(self._life, event) for event in found]

    async def _started(self, entry: HistoryEvent) -> Iterable[SessionEvent]:
        started = entry.workflow_execution_started_event_attributes
        state = await self.decode(started.input.payloads[0], SessionState)
        self._life = started.first_execution_run_id[-8:]  # the end is random; the beginning may be the time
        self._next_number, self._counted = state.next_number, state.self_correction
        return state.events

    async def _signaled(self, entry: HistoryEvent) -> Iterable[SessionEvent]:
        signal = entry.workflow_execution_signaled_event_attributes
        event = SessionEvent(number=self._next_number, time=time_of(entry))
        match signal.signal_name:
            case name if name == TASK_COMPLETED_SIGNAL:
                completed = await self.decode(signal.input.payloads[0], TaskCompleted)
                self._counted, view = corrected(self._counted, completed)
                update = {"task_completed": completed, "self_correction": view}
            case name if name == CALL_REFUSED_SIGNAL:
                refused = await self.decode(signal.input.payloads[0], CallRefused)
                self._counted, view = corrected(self._counted, refused)
                update = {"call_refused": refused, "self_correction": view}
            case name if name == POSTED_SIGNAL:
                update = {"posted": await self.decode(signal.input.payloads[0], Posted)}
            case _:
                return ()
        self._next_number += 1
        return (event.model_copy(update=update),)


class SessionEvents:
    """Reads and follows sessions. Raises `outlast.api.errors.ApiError`s."""

    def __init__(self, client: Client, unread: UnreadBytes) -> None:
        """Read through `client`, within what callers may leave `unread`."""
        self._client = client
        self._unread = unread

    async def follow(
        self, caller: Caller, session_id: str, *, after: str | None = None
    ) -> AsyncGenerator[ConversationEvent] | None:
        """Events after the one with id `after`, as they happen, until the session ends.

        None when it has ended and nothing came after. Raises `SessionNotFound`, or `BadRequest` for a bad id.
        """
        position = _position_of(after)
        described = await self._described(caller, session_id)
        run_id = described.run_id or ""
        room = self._unread.room_of(caller.id)
        if described.status is WorkflowExecutionStatus.RUNNING:
            return self._stream(described.id, run_id, position, room, wait=True)
        with temporal_errors():
            async with aclosing(self._stream(described.id, run_id, position, room, wait=False)) as events:
                is_empty = await anext(events, None) is None
        return None if is_empty else self._stream(described.id, run_id, position, room, wait=False)

    async def _described(self, caller: Caller, session_id: str) -> WorkflowExecutionDescription:
        missing = SessionNotFound(
            f"You have no session {session_id!r}. A session begins with the first call that names it."
        )
        with temporal_errors(missing=missing):
            found = await self._client.get_workflow_handle(session_workflow_id(caller.id, session_id)).describe()
        if owner_of(found) != caller.id:
            raise missing
        return found

    async def _stream(
        self, workflow_id: str, run_id: str, after: _Position, room: Room, *, wait: bool
    ) -> AsyncGenerator[ConversationEvent]:
        """The events of one run after another. During an outage of Temporal the stream is silent; then it continues."""
        converter, position = self._client.data_converter, replace(after)
        history = follow_history(
            self._client, workflow_id, run_id, lambda number: _SessionFold(converter, number), wait=wait, room=room
        )
        async with aclosing(history):
            async for numbered in history:
                number, life = numbered.event.number, numbered.life
                if position.life != life:
                    position.life, position.number = life, 0
                if number > position.number + 1:
                    yield _missed(number - position.number - 1)
                if number > position.number:
                    position.number = number
                    yield _as_streamed(numbered.event, life)
                del numbered


def _as_streamed(event: SessionEvent, life: str) -> ConversationEvent:
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


def _missed(count: int) -> ConversationEvent:
    return ConversationEvent(name="events_missed", data={"count": count})


def _position_of(event_id: str | None) -> _Position:
    if not event_id:
        return _Position()
    match = _ID.fullmatch(event_id)
    if match is None:
        raise unknown_event_id(event_id)
    return _Position(match.group(1), int(match.group(2)))
