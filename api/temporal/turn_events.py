"""The events of a turn, read from its history: durable, in order, readable while no worker is alive.

What the turn tells itself stands in the changes of its memo; streamed text in the signals to its stream; retries of a
model's call in the activity's own entries. The same history always gives the same events with the same ids, so a reader
goes on anywhere. A call of the model that is repeated streams anew: what it repeats is not sent twice, and only when it
says something else is the reader told (`retry` with `discard_text`) to drop the step's text.
"""

import asyncio
import base64
import re
from collections.abc import AsyncGenerator, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import JsonValue
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.failure.v1 import Failure
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflow.v1 import PendingActivityInfo
from temporalio.client import Client
from temporalio.contrib.workflow_streams import PublishInput
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.llm.contracts import ModelStep, TextDelta
from outlast.activities.llm.streaming import DELTAS_TOPIC
from outlast.api.contracts.events import TurnEventName, TurnStreamEvent
from outlast.api.errors import BadRequest
from outlast.api.temporal.errors import is_outage
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.questions import TASK_ASKS_SIGNAL, TaskAsks
from outlast.workflows.contracts.turns import TurnEvents
from outlast.workflows.turn import STEP_ACTIVITY_PREFIX

_OUTAGE_PAUSE_SECONDS = 1.0
_LOOK_SECONDS = 2.0
"""How long nothing may happen before it is looked whether a call of the model fails."""
_PUBLISH_SIGNAL = "__temporal_workflow_stream_publish"
_ID = re.compile(r"(\d{1,6})\.(\d{1,9})\.(\d{1,6})")
_ABNORMAL_ENDS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "The turn's workflow failed.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "An operator terminated the turn.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "The turn's workflow timed out.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED: "The turn was cancelled before it began.",
}

Position = tuple[int, int, int]
Said = tuple[TurnEventName, dict[str, JsonValue]]


@dataclass
class StepText:
    """What a reader has been told of one step's text, while one attempt or another says it."""

    step: int
    told: str = ""
    attempt: int = 0
    said: str = ""
    closed: bool = False

    def heard(self, attempt: int, text: str) -> Iterator[Said]:
        """A piece of an attempt's text. Older attempts are not heard any more."""
        if self.closed or attempt < self.attempt:
            return
        if attempt > self.attempt:
            self.attempt, self.said = attempt, ""
        self.said += text
        if not self.told.startswith(self.said):
            yield from self._tell(self.said)

    def ended(self, attempt: int, text: str) -> Iterator[Said]:
        """The whole text, as the step's result has it: what was not delivered as a piece is told now."""
        self.attempt, self.closed = attempt, True
        if text != self.told:
            yield from self._tell(text)

    def _tell(self, text: str) -> Iterator[Said]:
        rest = text.removeprefix(self.told)
        if not text.startswith(self.told):
            yield "retry", {"step": self.step, "attempt": self.attempt, "discard_text": True}
        self.told = text
        if rest:
            yield "text-delta", {"step": self.step, "text": rest}


@dataclass
class _Fold:
    """One run of the workflow, while its history is read."""

    number: int
    steps: dict[int, int] = field(default_factory=dict[int, int])
    attempts: dict[int, int] = field(default_factory=dict[int, int])
    texts: dict[int, StepText] = field(default_factory=dict[int, StepText])
    sequences: dict[str, int] = field(default_factory=dict[str, int])
    continued_as: str | None = None

    def text(self, step: int) -> StepText:
        return self.texts.setdefault(step, StepText(step))


class TurnEventLog:
    """Reads one turn."""

    def __init__(self, client: Client, workflow_id: str, first_run_id: str) -> None:
        """Read through `client`, from the turn's first run on."""
        self._client = client
        self._converter = client.data_converter
        self._workflow_id = workflow_id
        self._first_run_id = first_run_id

    async def follow(self, *, after: Position = (0, 0, 0), wait: bool = True) -> AsyncGenerator[TurnStreamEvent]:
        """Events after the position, as they happen, to the end. While Temporal is away it is silent."""
        following, number = self._first_run_id, 0
        while following:
            fold = _Fold(number)
            try:
                async for event in self._read(following, fold, wait=wait):
                    position = position_of(event.id)
                    if position > after:
                        after = position
                        yield event
                following, number = fold.continued_as or "", number + 1
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return
                if not is_outage(error):
                    raise
                await asyncio.sleep(_OUTAGE_PAUSE_SECONDS)

    async def live(self, *, after: Position) -> AsyncGenerator[TurnStreamEvent]:
        """As `follow`, and between its events, without an id, that a call of the model has failed and is repeated."""
        events, told = self.follow(after=after), set[tuple[str, int]]()
        pending = asyncio.ensure_future(anext(events, None))
        try:
            while True:
                done, _ = await asyncio.wait({pending}, timeout=_LOOK_SECONDS)
                if not done:
                    for key, failed in await self._failing():
                        if key not in told:
                            told.add(key)
                            yield failed
                    continue
                event = pending.result()
                if event is None:
                    return
                yield event
                pending = asyncio.ensure_future(anext(events, None))
        finally:
            pending.cancel()

    async def _failing(self) -> list[tuple[tuple[str, int], TurnStreamEvent]]:
        """Calls of the model that have failed and are repeated now. Whether Temporal can say so does not matter."""
        try:
            described = await self._client.get_workflow_handle(self._workflow_id).describe()
        except (RPCError, RuntimeError):
            return []
        return [
            ((activity.activity_id, activity.attempt), _repeated(activity))
            for activity in described.raw_description.pending_activities
            if activity.activity_id.startswith(STEP_ACTIVITY_PREFIX) and activity.HasField("last_failure")
        ]

    async def _read(self, run_id: str, fold: _Fold, *, wait: bool) -> AsyncGenerator[TurnStreamEvent]:
        handle = self._client.get_workflow_handle(self._workflow_id, run_id=run_id)
        async for entry in handle.fetch_history_events(wait_new_event=wait):
            for count, (name, data) in enumerate(await self._told(entry, fold), start=1):
                yield TurnStreamEvent(
                    name=name,
                    id=f"{fold.number}.{entry.event_id}.{count}",
                    time=entry.event_time.ToDatetime(tzinfo=UTC),
                    data=data,
                )

    async def _told(self, entry: HistoryEvent, fold: _Fold) -> list[Said]:
        said: list[Said] = []
        match entry.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
                said = await self._signaled(entry, fold)
            case EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
                said = await self._told_by_itself(entry)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
                step = entry.activity_task_scheduled_event_attributes.activity_id
                if step.startswith(STEP_ACTIVITY_PREFIX):
                    fold.steps[entry.event_id] = int(step.removeprefix(STEP_ACTIVITY_PREFIX))
            case EventType.EVENT_TYPE_ACTIVITY_TASK_STARTED:
                said = _started(entry, fold)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                said = await self._step_ended(entry, fold)
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
                fold.continued_as = entry.workflow_execution_continued_as_new_event_attributes.new_execution_run_id
            case end if end in _ABNORMAL_ENDS:
                said = _abnormal(_ABNORMAL_ENDS[end])
            case _:
                pass
        return said

    async def _told_by_itself(self, entry: HistoryEvent) -> list[Said]:
        fields = entry.workflow_properties_modified_event_attributes.upserted_memo.fields
        if memo.TURN_EVENTS not in fields:
            return []
        (told,) = await self._converter.decode([fields[memo.TURN_EVENTS]], [TurnEvents])
        return [(event.name, event.data) for event in told.events]

    async def _signaled(self, entry: HistoryEvent, fold: _Fold) -> list[Said]:
        signal = entry.workflow_execution_signaled_event_attributes
        if signal.signal_name == TASK_ASKS_SIGNAL:
            (asks,) = await self._converter.decode(signal.input.payloads, [TaskAsks])
            return [("hand-off", asks.model_dump(mode="json", exclude_none=True))]
        if signal.signal_name != _PUBLISH_SIGNAL:
            return []
        (batch,) = await self._converter.decode(signal.input.payloads, [PublishInput])
        # A batch whose delivery was repeated stands in the history twice, with the same number.
        if batch.sequence <= fold.sequences.get(batch.publisher_id, 0):
            return []
        fold.sequences[batch.publisher_id] = batch.sequence
        deltas = [self._delta(item.data) for item in batch.items if item.topic == DELTAS_TOPIC]
        return [told for delta in deltas for told in fold.text(delta.step).heard(delta.attempt, delta.text)]

    def _delta(self, wire: str) -> TextDelta:
        payload = Payload.FromString(base64.b64decode(wire))
        return self._converter.payload_converter.from_payload(payload, TextDelta)

    async def _step_ended(self, entry: HistoryEvent, fold: _Fold) -> list[Said]:
        completed = entry.activity_task_completed_event_attributes
        step = fold.steps.get(completed.scheduled_event_id)
        if step is None:
            return []
        (said,) = await self._converter.decode(completed.result.payloads, [ModelStep])
        return list(fold.text(step).ended(fold.attempts.get(completed.scheduled_event_id, 1), said.text))


def position_of(event_id: str | None) -> Position:
    """Where in a turn an event stands; the beginning for None. Raises `BadRequest` for what is no id."""
    if not event_id:
        return (0, 0, 0)
    match = _ID.fullmatch(event_id)
    if match is None:
        raise BadRequest(f"{event_id[:50]!r} is not the id of an event; pass the last id received, or none.")
    return (int(match.group(1)), int(match.group(2)), int(match.group(3)))


def _started(entry: HistoryEvent, fold: _Fold) -> list[Said]:
    """The history says that a call of the model began when it has ended, with what went wrong before."""
    started = entry.activity_task_started_event_attributes
    step = fold.steps.get(started.scheduled_event_id)
    if step is None:
        return []
    fold.attempts[started.scheduled_event_id] = started.attempt
    if started.attempt <= 1:
        return []
    return [("retry", {"step": step, "attempt": started.attempt, **failure_words(started.last_failure)})]


def _repeated(activity: PendingActivityInfo) -> TurnStreamEvent:
    step = int(activity.activity_id.removeprefix(STEP_ACTIVITY_PREFIX))
    data: dict[str, JsonValue] = {"step": step, "attempt": activity.attempt, **failure_words(activity.last_failure)}
    return TurnStreamEvent(name="retry", id=None, time=datetime.now(UTC), data={**data, "under_way": True})


def failure_words(failure: Failure) -> dict[str, JsonValue]:
    """What an attempt failed with: its `error_kind` (an `ErrorCategory`) and the message."""
    kind: str = ErrorCategory.UNKNOWN
    if failure.HasField("application_failure_info"):
        named = failure.application_failure_info.type
        kind = named if named in set(ErrorCategory) else kind
    elif failure.HasField("timeout_failure_info"):
        kind = ErrorCategory.TIMEOUT
    return {"error_kind": str(kind), "message": failure.message[:500]}


def _abnormal(message: str) -> list[Said]:
    error = ErrorEnvelope(tool="", message=message, category=ErrorCategory.UNKNOWN, retryable=False)
    return [
        ("error", error.model_dump(mode="json", exclude_none=True)),
        ("finish", {"status": "failed", "reason": "error"}),
    ]
