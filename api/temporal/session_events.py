"""The events of a conversation, read from the history of its session's workflow.

Every signal that the session has taken is one event; the history numbers them, and what the workflow handed on when it
continued as new holds the latest 200 before it. So the events are readable while no worker is alive.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from datetime import UTC

from pydantic import JsonValue
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.contracts import Caller
from outlast.api.contracts.events import ConversationEvent
from outlast.api.errors import BadRequest, SessionNotFound, TemporalUnavailable
from outlast.api.temporal.errors import is_outage
from outlast.api.temporal.task_view import owner_of
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

_OUTAGE_PAUSE_SECONDS = 1.0
_ID = re.compile(r"([0-9a-f]{8})-(\d{1,12})")
_STARTED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED
_SIGNALED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED
_CONTINUED = EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW


@dataclass
class _Position:
    """How far a follower is: of which session of that name, and how many events of it."""

    life: str = ""
    number: int = 0


@dataclass
class _Run:
    """One run of the workflow while its history is read."""

    run_id: str
    life: str = ""
    next_number: int = 1
    continued_as: str | None = None
    known: list[SessionEvent] = field(default_factory=list[SessionEvent])
    counted: SelfCorrection = field(default_factory=SelfCorrection)


class SessionEvents:
    """Reads and follows conversations. Raises an `outlast.api.errors.ApiError` for what it has to refuse."""

    def __init__(self, client: Client) -> None:
        """Read through `client`."""
        self._client = client

    async def follow(
        self, caller: Caller, session_id: str, *, after: str | None = None
    ) -> AsyncIterator[ConversationEvent] | None:
        """Events after the one with id `after`, as they happen, until the session ends.

        None when it has ended and nothing came after. Raises `SessionNotFound`, or `BadRequest` for a bad id.
        """
        position = _position_of(after)
        described = await self._described(caller, session_id)
        run_id = described.run_id or ""
        if described.status is WorkflowExecutionStatus.RUNNING:
            return self._stream(described.id, run_id, position, wait=True)
        events = [event async for event in self._stream(described.id, run_id, position, wait=False)]
        return _all_of(events) if events else None

    async def _described(self, caller: Caller, session_id: str) -> WorkflowExecutionDescription:
        try:
            found = await self._client.get_workflow_handle(session_workflow_id(caller.id, session_id)).describe()
        except RPCError as error:
            if is_outage(error):
                raise TemporalUnavailable("The Temporal server does not answer; ask again shortly.") from error
            if error.status in (RPCStatusCode.NOT_FOUND, RPCStatusCode.INVALID_ARGUMENT):
                raise _no_such_session(session_id) from error
            raise
        except RuntimeError as error:  # a lazy client that cannot connect
            raise TemporalUnavailable("The Temporal server cannot be reached; ask again shortly.") from error
        if owner_of(found) != caller.id:
            raise _no_such_session(session_id)
        return found

    async def _stream(
        self, workflow_id: str, run_id: str, position: _Position, *, wait: bool
    ) -> AsyncGenerator[ConversationEvent]:
        """Run after run. While the Temporal server is away the stream is silent, and goes on where it was."""
        following: str | None = run_id
        while following is not None:
            run = _Run(following)
            try:
                async for event in self._read(workflow_id, run, position, wait=wait):
                    yield event
                following = run.continued_as
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return  # Temporal has removed the history meanwhile.
                if not is_outage(error):
                    raise
                await asyncio.sleep(_OUTAGE_PAUSE_SECONDS)

    async def _read(
        self, workflow_id: str, run: _Run, position: _Position, *, wait: bool
    ) -> AsyncGenerator[ConversationEvent]:
        handle = self._client.get_workflow_handle(workflow_id, run_id=run.run_id)
        async for entry in handle.fetch_history_events(wait_new_event=wait):
            for event in await self._events_of(entry, run):
                if position.life != run.life:
                    position.life, position.number = run.life, 0
                if event.number > position.number + 1:
                    yield _missed(event.number - position.number - 1)
                if event.number > position.number:
                    position.number = event.number
                    yield _told(event, run.life)

    async def _events_of(self, entry: HistoryEvent, run: _Run) -> list[SessionEvent]:
        """What one entry of the history says; of the first, all that earlier runs handed on."""
        match entry.event_type:
            case event_type if event_type == _STARTED:
                started = entry.workflow_execution_started_event_attributes
                (state,) = await self._client.data_converter.decode(started.input.payloads, [SessionState])
                run.life = started.first_execution_run_id[-8:]  # the end is random; the beginning may be the time
                run.next_number, run.counted = state.next_number, state.self_correction
                return list(state.events)
            case event_type if event_type == _SIGNALED:
                return await self._signaled(entry, run)
            case event_type if event_type == _CONTINUED:
                continued = entry.workflow_execution_continued_as_new_event_attributes
                run.continued_as = continued.new_execution_run_id
                return []
            case _:
                return []

    async def _signaled(self, entry: HistoryEvent, run: _Run) -> list[SessionEvent]:
        signal = entry.workflow_execution_signaled_event_attributes
        decode, payloads = self._client.data_converter.decode, signal.input.payloads
        number, time = run.next_number, entry.event_time.ToDatetime(tzinfo=UTC)
        match signal.signal_name:
            case name if name == TASK_COMPLETED_SIGNAL:
                (completed,) = await decode(payloads, [TaskCompleted])
                run.counted, said = corrected(run.counted, completed)
                event = SessionEvent(number=number, time=time, task_completed=completed, self_correction=said)
            case name if name == CALL_REFUSED_SIGNAL:
                (refused,) = await decode(payloads, [CallRefused])
                run.counted, said = corrected(run.counted, refused)
                event = SessionEvent(number=number, time=time, call_refused=refused, self_correction=said)
            case name if name == POSTED_SIGNAL:
                (posted,) = await decode(payloads, [Posted])
                event = SessionEvent(number=number, time=time, posted=posted)
            case _:
                return []
        run.next_number += 1
        return [event]


def _told(event: SessionEvent, life: str) -> ConversationEvent:
    """The event as a client reads it."""
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
    said: dict[str, JsonValue] = {"message" if posted.kind == "update" else "emoji": posted.text}
    return ConversationEvent(name=posted.kind, id=identity, time=event.time, data={**said, **data})


def _missed(count: int) -> ConversationEvent:
    return ConversationEvent(name="events_missed", data={"count": count})


def _position_of(event_id: str | None) -> _Position:
    if not event_id:
        return _Position()
    match = _ID.fullmatch(event_id)
    if match is None:
        raise BadRequest(f"{event_id[:50]!r} is not the id of an event; pass the last id received, or none.")
    return _Position(match.group(1), int(match.group(2)))


async def _all_of(events: list[ConversationEvent]) -> AsyncGenerator[ConversationEvent]:
    for event in events:
        yield event


def _no_such_session(session_id: str) -> SessionNotFound:
    return SessionNotFound(f"You have no session {session_id!r}. A session begins with the first call that names it.")
