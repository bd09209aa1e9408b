"""The events of a turn, read from its workflow's history, with the same ids each time, so that a reader can resume.

The turn's own events are in the changes of its memo, streamed text in signals, retries in the activity's entries.
"""

import asyncio
import base64
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from pydantic import JsonValue
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.contrib.workflow_streams import PublishInput
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.llm.contracts import ArgumentsDelta, ModelStep, TextDelta
from outlast.activities.llm.streaming import ARGUMENTS_TOPIC, DELTAS_TOPIC, PUBLISH_SIGNAL
from outlast.activities.outputs.reader import Room
from outlast.activities.stuck_tasks.contracts import error_of_end
from outlast.activities.stuck_tasks.histories import readable
from outlast.api.errors import TemporalUnavailable
from outlast.api.temporal.errors import parts_of_id, temporal_errors
from outlast.api.temporal.history import DESCRIPTIONS, RunFold, follow_history, time_of
from outlast.contracts.events import TurnEventName, TurnStreamEvent
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.questions import TASK_ASKS_SIGNAL, TaskAsks
from outlast.workflows.contracts.turns import TurnEvents
from outlast.workflows.turn import STEP_ACTIVITY_PREFIX

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
    message = "The events of this turn are no longer kept. Its messages are: ask for the turn itself."
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
