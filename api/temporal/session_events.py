"""The events of a session and of its turns, read from histories, with the same ids each time, so a reader can resume.

A session's events are the signals to its workflow: it numbers them, and passes on the latest 200 when it continues as
new. A turn's own events are in the changes of its memo, streamed text in signals, retries in the activity's entries.
"""

import asyncio
import base64
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial

from pydantic import JsonValue
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client, WorkflowExecutionStatus
from temporalio.contrib.workflow_streams import PublishInput
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope
from outlast.activities.llm.contracts import ArgumentsDelta, ModelStep, TextDelta
from outlast.activities.llm.streaming import ARGUMENTS_TOPIC, DELTAS_TOPIC, PUBLISH_SIGNAL
from outlast.activities.outputs.reader import Room
from outlast.activities.stuck_tasks.contracts import error_of_end
from outlast.activities.stuck_tasks.histories import readable
from outlast.api.access.limits.caller_limits import UnreadBytes
from outlast.api.errors import SessionNotFound, TemporalUnavailable
from outlast.api.temporal.errors import parts_of_id, temporal_errors
from outlast.api.temporal.history import DESCRIPTIONS, RunFold, follow_history, time_of
from outlast.api.temporal.visibility import owned
from outlast.contracts.tasks import ConversationEvent, TurnEventName, TurnStreamEvent
from outlast.workflows.contracts import memo, sessions
from outlast.workflows.contracts.questions import TASK_ASKS_SIGNAL, TaskAsks
from outlast.workflows.contracts.self_correction import SelfCorrection
from outlast.workflows.contracts.sessions import TurnEvents
from outlast.workflows.contracts.tool_calls import CallRefused, TaskCompleted
from outlast.workflows.turn import STEP_ACTIVITY_PREFIX

_SESSION_EVENT_ID = re.compile(r"([0-9a-f]{8})-(\d{1,12})", re.ASCII)


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
        life, number = parts_of_id(_SESSION_EVENT_ID, after) or ("", "0")
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


_FAILURE_CHECK_SECONDS = 2.0
"""Silence after which a stream looks for failing model calls, while there are few streams."""
_ID = re.compile(r"(\d{1,6})\.(\d{1,9})\.(\d{1,6})", re.ASCII)
_ABNORMAL_ENDS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "The turn's workflow failed.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "An operator terminated the turn.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "The turn's workflow timed out.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: "The turn was cancelled before it began.",
}

Position = tuple[int, int, int]
"""An event's position in a turn: the run of its workflow, the ID of the history event, and a count within it."""
NamedData = tuple[TurnEventName, dict[str, JsonValue]]


@dataclass
class StepText:
    """The text of one step that was sent to the reader, across the attempts of its model call.

    A repeated call streams its text again. Identical text is not sent twice; if it differs, a `retry` event with
    `discard_text` tells the reader to drop the step's text.
    """

    step: int
    sent: str = ""
    attempt: int = 0
    streamed: str = ""
    closed: bool = False

    def add_delta(self, attempt: int, text: str) -> Iterator[NamedData]:
        """A piece of an attempt's text."""
        if self._is_current(attempt):
            self.streamed += text
            if not self.sent.startswith(self.streamed):
                yield from self._send(self.streamed)

    def add_arguments(self, delta: ArgumentsDelta) -> Iterator[NamedData]:
        """A piece of a call's arguments. A newer attempt writes all of them again."""
        if self._is_current(delta.attempt):
            data = delta.model_dump(mode="json", include={"step", "attempt", "call_id", "tool"})
            yield "tool-call-delta", {**data, "arguments": delta.text}

    def _is_current(self, attempt: int) -> bool:
        """Note the attempt. Returns False for older attempts, whose pieces are ignored."""
        if self.closed or attempt < self.attempt:
            return False
        if attempt > self.attempt:
            self.attempt, self.streamed = attempt, ""
        return True

    def finish(self, attempt: int, text: str) -> Iterator[NamedData]:
        """The whole text of the step's result. Sends the part that no delta delivered."""
        self.attempt, self.closed = attempt, True
        if text != self.sent:
            yield from self._send(text)

    def _send(self, text: str) -> Iterator[NamedData]:
        rest = text.removeprefix(self.sent)
        if not text.startswith(self.sent):
            yield "retry", {"step": self.step, "attempt": self.attempt, "discard_text": True}
        self.sent = text
        if rest:
            yield "text-delta", {"step": self.step, "text": rest}


class _TurnFold(RunFold[TurnStreamEvent]):
    def __init__(self, converter: DataConverter, number: int) -> None:
        super().__init__(converter, number)
        self._payloads = converter.payload_converter
        self._steps: dict[int, int] = {}
        self._attempts: dict[int, int] = {}
        self._texts: dict[int, StepText] = {}
        self._sequences: dict[str, int] = {}

    async def events_of(self, entry: HistoryEvent) -> Iterable[TurnStreamEvent]:
        return [
            TurnStreamEvent(name=name, id=f"{self.number}.{entry.event_id}.{count}", time=time_of(entry), data=data)
            for count, (name, data) in enumerate(await self._named(entry), start=1)
        ]

    async def _named(self, entry: HistoryEvent) -> list[NamedData]:
        match entry.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                return await self._signaled(entry)
            case EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
                return await self._own_events(entry)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                activity_id = entry.activity_task_scheduled_event_attributes.activity_id
                if activity_id.startswith(STEP_ACTIVITY_PREFIX):
                    self._steps[entry.event_id] = _step_of(activity_id)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                return await self._step_started(entry)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                return await self._step_completed(entry)
            case end if end in _ABNORMAL_ENDS:
                details = entry.workflow_execution_terminated_event_attributes.details.payloads
                return _abnormal_end(_ABNORMAL_ENDS[end], error_of_end(await self._converter.decode(details)))
            case _:
                pass
        return []

    async def _own_events(self, entry: HistoryEvent) -> list[NamedData]:
        fields = entry.workflow_properties_modified_event_attributes.upserted_memo.fields
        if memo.TURN_EVENTS not in fields:
            return []
        written = await self.decode(fields[memo.TURN_EVENTS], TurnEvents)
        return [(event.name, event.data) for event in written.events]

    async def _signaled(self, entry: HistoryEvent) -> list[NamedData]:
        signal = entry.workflow_execution_signaled_event_attributes
        if signal.signal_name == TASK_ASKS_SIGNAL:
            asks = await self.decode(signal.input.payloads[0], TaskAsks)
            return [("hand-off", asks.model_dump(mode="json", exclude_none=True))]
        if signal.signal_name != PUBLISH_SIGNAL:
            return []
        batch = await self.decode(signal.input.payloads[0], PublishInput)
        # A batch that was delivered twice is in the history twice, with the same number.
        if batch.sequence <= self._sequences.get(batch.publisher_id, 0):
            return []
        self._sequences[batch.publisher_id] = batch.sequence
        return [named for item in batch.items for named in self._published(item.topic, item.data)]

    def _published(self, topic: str, wire: str) -> Iterator[NamedData]:
        payload = Payload.FromString(base64.b64decode(wire))
        if topic == DELTAS_TOPIC:
            text = self._payloads.from_payload(payload, TextDelta)
            yield from self._text(text.step).add_delta(text.attempt, text.text)
        elif topic == ARGUMENTS_TOPIC:
            delta = self._payloads.from_payload(payload, ArgumentsDelta)
            yield from self._text(delta.step).add_arguments(delta)

    async def _step_started(self, entry: HistoryEvent) -> list[NamedData]:
        """Temporal records the start of an activity when it ends, with the failure of the attempt before."""
        started = entry.activity_task_started_event_attributes
        step = self._steps.get(started.scheduled_event_id)
        if step is None:
            return []
        self._attempts[started.scheduled_event_id] = started.attempt
        if started.attempt <= 1:
            return []
        failure = await self.readable(started.last_failure)
        return [("retry", {"step": step, "attempt": started.attempt, **failure_data(failure)})]

    async def _step_completed(self, entry: HistoryEvent) -> list[NamedData]:
        completed = entry.activity_task_completed_event_attributes
        step = self._steps.get(completed.scheduled_event_id)
        if step is None:
            return []
        result = await self.decode(completed.result.payloads[0], ModelStep)
        if result.finish_reason == "too_long":
            return []  # The step continues after the compaction, with another call of the model.
        return list(self._text(step).finish(self._attempts.get(completed.scheduled_event_id, 1), result.text))

    def _text(self, step: int) -> StepText:
        return self._texts.setdefault(step, StepText(step))


@dataclass(eq=False)
class TurnEventLog:
    """Reads one turn."""

    client: Client
    workflow_id: str
    first_run_id: str
    room: Room | None = None

    async def follow(self, *, after: Position = (0, 0, 0), wait: bool = True) -> AsyncGenerator[TurnStreamEvent]:
        """Events after the position, as they happen, to the end. Silent during an outage of Temporal.

        The last event is `finish`, or with `wait` an `error` without an ID if Temporal has removed the history.
        """
        client, run_id = self.client, self.first_run_id
        new_fold = partial(_TurnFold, client.data_converter)
        history = follow_history(client, self.workflow_id, run_id, new_fold, wait=wait, room=self.room)
        has_finished = False
        async with aclosing(history):
            async for event in history:
                has_finished = has_finished or event.name == "finish"
                if (position := position_of(event.id)) > after:
                    after = position
                    yield event
                del event
        if wait and not has_finished:
            yield _removed()

    async def live(self, *, after: Position) -> AsyncGenerator[TurnStreamEvent]:
        """Like `follow`, with additional events without an ID while a failed model call is being retried."""
        events, reported = self.follow(after=after), set[tuple[str, int]]()
        pending = asyncio.ensure_future(anext(events, None))
        try:
            with DESCRIPTIONS.follower():
                while True:
                    pause = DESCRIPTIONS.pause_seconds(_FAILURE_CHECK_SECONDS)
                    done, _ = await asyncio.wait({pending}, timeout=pause)
                    if not done:
                        for key, retry in await self._retries_under_way():
                            if key not in reported:
                                reported.add(key)
                                yield retry
                        continue
                    event = pending.result()
                    if event is None:
                        return
                    yield event
                    del event
                    pending = asyncio.ensure_future(anext(events, None))
        finally:
            pending.cancel()
            await asyncio.wait({pending})
            await events.aclose()

    async def _retries_under_way(self) -> list[tuple[tuple[str, int], TurnStreamEvent]]:
        """Model calls that have failed and are being retried; none during an outage of Temporal."""
        try:
            with temporal_errors():
                described = await self.client.get_workflow_handle(self.workflow_id).describe()
        except (RPCError, TemporalUnavailable):
            return []
        return [
            ((activity.activity_id, activity.attempt), await _retry_under_way(activity, self.client.data_converter))
            for activity in described.raw_description.pending_activities
            if activity.activity_id.startswith(STEP_ACTIVITY_PREFIX) and activity.HasField("last_failure")
        ]


def position_of(event_id: str | None) -> Position:
    """The position of an event by its id; the beginning for None. Raises `BadRequest` for a malformed id."""
    run, entry, count = parts_of_id(_ID, event_id) or (0, 0, 0)
    return int(run), int(entry), int(count)


def failure_data(failure: Failure) -> dict[str, JsonValue]:
    """The failure of an attempt: its `error_kind` (an `ErrorCategory`) and the message."""
    kind: str = ErrorCategory.UNKNOWN
    if failure.HasField("application_failure_info"):
        named = failure.application_failure_info.type
        kind = named if named in set(ErrorCategory) else kind
    elif failure.HasField("timeout_failure_info"):
        kind = ErrorCategory.TIMEOUT
    return {"error_kind": str(kind), "message": failure.message[:500]}


def _step_of(activity_id: str) -> int:
    return int(activity_id.removeprefix(STEP_ACTIVITY_PREFIX))


async def _retry_under_way(activity: PendingActivityInfo, converter: DataConverter) -> TurnStreamEvent:
    step = _step_of(activity.activity_id)
    failure = await readable(activity.last_failure, converter)
    data: dict[str, JsonValue] = {"step": step, "attempt": activity.attempt, **failure_data(failure)}
    return TurnStreamEvent(name="retry", id=None, time=datetime.now(UTC), data={**data, "under_way": True})


def _removed() -> TurnStreamEvent:
    message = "The events of this turn are no longer kept. Its messages are: get the turn itself."
    error = ErrorEnvelope.permanent(ErrorCategory.NOT_FOUND, "", message)
    data = error.model_dump(mode="json", exclude_none=True)
    return TurnStreamEvent(name="error", id=None, time=datetime.now(UTC), data=data)


def _abnormal_end(message: str, stuck: ErrorEnvelope | None) -> list[NamedData]:
    error = stuck or ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, "", message)
    is_cancelled = error.category is ErrorCategory.CANCELLED
    return [
        ("error", error.model_dump(mode="json", exclude_none=True)),
        ("finish", {"status": "cancelled" if is_cancelled else "failed", "reason": "error"}),
    ]
