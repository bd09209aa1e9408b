"""The events of a task, read from its workflow's history. Needs no worker, and can be resumed after any event.

A run's status message is not durable: it comes from the heartbeat of the activity that follows the run.
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing, suppress
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, JsonValue
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import Client, WorkflowHandle
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from outlast.activities.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.dispatch.contracts import QUEUED_START_DELAY
from outlast.activities.outputs.contracts import StoredDataset, StoredOutput
from outlast.activities.outputs.reader import Room
from outlast.activities.platform_requests.contracts import WatchedRun, WatchRunResult
from outlast.activities.runs.contracts import FINAL_RUN_STATUSES, AbortResult, ResurrectResult, RunState
from outlast.activities.stuck_tasks.contracts import error_of_end
from outlast.activities.stuck_tasks.histories import ActivityResults
from outlast.api.temporal import history as histories
from outlast.api.temporal import history_details, task_view
from outlast.api.temporal.errors import is_outage, parts_of_id
from outlast.api.temporal.history_details import was_cancelled
from outlast.contracts.tasks import AnswerEvent, HandoffEvent, Task, TaskEvent, TaskEventName
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.contracts.questions import InputAnswer, InputRequest, InputRequests, SubmitInput
from outlast.workflows.contracts.tool_calls import Progress, TaskCompleted, TaskStatus, TaskSummary

STATUS_POLL_SECONDS = 1.0
RELEASED_MESSAGE = "It was queued, and starts now."
_ID = re.compile(r"(\d{1,9})\.(\d{1,9})", re.ASCII)
Position = tuple[int, int]
"""An event's position in a task's history: the ID of the history event, and a count within it."""
NamedData = tuple[TaskEventName, BaseModel | dict[str, JsonValue]]


class QuestionLog:
    """The open questions, tracked while a history is read."""

    def __init__(self) -> None:
        self._open: dict[str, InputRequest] = {}

    def asked(self, now: InputRequests) -> Iterator[NamedData]:
        """Events for the questions that were not open before."""
        new = {key: request for key, request in now.requests.items() if key not in self._open}
        self._open = dict(now.requests)
        if now.requests:
            yield "input_required", now
        for key, request in new.items():
            if request.handoff is not None:
                yield "isomorphic_handoff", handed_over(key, request)

    def answered(self, submitted: SubmitInput) -> Iterator[NamedData]:
        """Events for the submitted answers."""
        for key, answer in submitted.answers.items():
            yield "input_answered", _answered(key, self._open.get(key), answer, submitted.answered_by)


def handed_over(key: str, request: InputRequest) -> HandoffEvent:
    """The hand-off that comes with a question asked under `key`; the question must have one."""
    handoff = request.handoff
    assert handoff is not None
    return HandoffEvent(
        key=key,
        kind=handoff.kind,
        audience=handoff.audience,
        tool=handoff.tool,
        phase=handoff.phase,
        message=request.message,
        parameters=handoff.parameters,
        answer_schema=request.requested_schema,
        deadline=handoff.deadline,
        maker=handoff.maker,
        approvers=handoff.approvers,
    )


def _answered(key: str, request: InputRequest | None, answer: InputAnswer, answered_by: str | None) -> AnswerEvent:
    handoff = request.handoff if request else None
    event = AnswerEvent(key=key, action=answer.action, message=answer.message, answered_by=answered_by)
    if handoff is None:
        return event
    shown: dict[str, object] = {"kind": handoff.kind, "tool": handoff.tool, "phase": handoff.phase}
    if handoff.kind == "approval":
        shown |= {name: answer.content.get(name) for name in ("decision", "note")}
    return event.model_copy(update=shown)


def _queue_message(status: TaskStatus, message: str) -> NamedData:
    return "status_message", {"status_message": message, "status": status.value}


def _data_of(model: BaseModel, **more: JsonValue) -> dict[str, JsonValue]:
    """The fields of a model, and more fields, as the data of an event."""
    return {**model.model_dump(mode="json", exclude_none=True), **more}


class _TaskFold(histories.RunFold[TaskEvent]):
    def __init__(self, converter: DataConverter, task_id: str) -> None:
        super().__init__(converter)
        self._task_id = task_id
        self._results = ActivityResults()
        self._tool = ""
        self._completed = False
        self._ended_runs: set[str] = set()
        self._stored: dict[str, StoredOutput] = {}
        self._questions = QuestionLog()

    async def events_of(self, entry: HistoryEvent) -> Iterable[TaskEvent]:
        return [
            TaskEvent(
                name=name,
                id=f"{entry.event_id}.{count}",
                time=histories.time_of(entry),
                data=_data_of(data) if isinstance(data, BaseModel) else data,
            )
            for count, (name, data) in enumerate(await self._named(entry), start=1)
        ]

    async def _named(self, entry: HistoryEvent) -> list[NamedData]:
        found: list[NamedData] = []
        match entry.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                found = await self._created(entry)
            case EventType.EVENT_TYPE_UPSERT_WORKFLOW_SEARCH_ATTRIBUTES:
                found = self._begun(entry)
            case (
                EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED
                | EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED
                | EventType.EVENT_TYPE_MARKER_RECORDED
            ):
                found = await self._activity_completed(entry)
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
                found = await self._answered(entry)
            case EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
                found = await self._memo_changed(entry)
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED if not self._completed:
                found = await self._ended(entry)
            case end if end in histories.ABNORMAL_ENDS and not self._completed:
                found = await self._ended(entry)
            case _:
                pass
        return found

    async def _created(self, entry: HistoryEvent) -> list[NamedData]:
        started = entry.workflow_execution_started_event_attributes
        if memo.SUMMARY not in started.memo.fields:
            return []
        summary: TaskSummary = await self.decode(started.memo.fields[memo.SUMMARY], TaskSummary)
        self._tool = summary.tool
        created: NamedData = ("created", summary)
        if started.first_workflow_task_backoff.ToTimedelta() != QUEUED_START_DELAY:
            return [created]
        return [created, _queue_message(TaskStatus.QUEUED, task_view.QUEUED_MESSAGE)]

    def _begun(self, entry: HistoryEvent) -> list[NamedData]:
        """The event of a queued task that starts."""
        changed = entry.upsert_workflow_search_attributes_event_attributes.search_attributes.indexed_fields
        if search_attributes.RELEASED_AT.name not in changed:
            return []
        return [_queue_message(TaskStatus.WORKING, RELEASED_MESSAGE)]

    async def _activity_completed(self, entry: HistoryEvent) -> list[NamedData]:
        activity, result = self._results.read(entry)
        found: list[NamedData] = []
        match activity:
            case history_details.START_RUN:
                found = [("run_started", await self.decode(result[0], RunState))]
            case history_details.WAIT_FOR_RUN:
                run = await self.decode(result[0], RunState)
                found = self._runs_ended([run] if run.is_final else [])
            case history_details.RESURRECT_RUN:
                found = self._run_resurrected(await self.decode(result[0], ResurrectResult))
            case history_details.ABORT_RUN:
                found = self._runs_ended((await self.decode(result[0], AbortResult)).runs)
            case history_details.WATCH_RUN:
                found = _watch_ended((await self.decode(result[0], WatchRunResult)).watched)
            case history_details.STORE_DATASET:
                found = self._output_stored((await self.decode(result[0], StoredDataset)).output)
            case history_details.STORE_RECORD | history_details.STORE_CONTENT:
                found = self._output_stored(await self.decode(result[0], StoredOutput))
            case _:
                pass
        return found

    async def _error_of_end(self, entry: HistoryEvent) -> ErrorEnvelope | None:
        """The error that a workflow was terminated with, because it was stuck; None for operators' terminations."""
        details = entry.workflow_execution_terminated_event_attributes.details.payloads
        return error_of_end(await self._converter.decode(details))

    def _runs_ended(self, runs: Iterable[RunState]) -> list[NamedData]:
        """Events for runs that ended, each once: two activities, the wait and the abort, return an aborted run."""
        ended = [run for run in runs if run.run_id not in self._ended_runs]
        self._ended_runs.update(run.run_id for run in ended)
        return [("run_finished", run) for run in ended]

    def _run_resurrected(self, result: ResurrectResult) -> list[NamedData]:
        """The event of a resurrected run, whose next end is an event again."""
        if not result.is_resurrected:
            return []
        self._ended_runs.discard(result.run.run_id)
        return [("run_resurrected", result.run)]

    def _output_stored(self, output: StoredOutput) -> list[NamedData]:
        self._stored[output.locator] = output
        return [("output_stored", _data_of(output, compressed=True))]

    async def _answered(self, entry: HistoryEvent) -> list[NamedData]:
        """Events for clients' answers. Other updates, such as questions of a proxied server, give no events."""
        update = entry.workflow_execution_update_accepted_event_attributes.accepted_request.input
        if update.name != history_details.SUBMIT_INPUT or not update.args.payloads:
            return []
        return list(self._questions.answered(await self.decode(update.args.payloads[0], SubmitInput)))

    async def _memo_changed(self, entry: HistoryEvent) -> list[NamedData]:
        fields = entry.workflow_properties_modified_event_attributes.upserted_memo.fields
        found: list[NamedData] = []
        if memo.INPUT_REQUESTS in fields:
            found.extend(self._questions.asked(await self.decode(fields[memo.INPUT_REQUESTS], InputRequests)))
        if memo.PROGRESS in fields:
            progress = await self.decode(fields[memo.PROGRESS], Progress)
            step = progress.model_dump(mode="json", include={"done", "total"}, exclude_none=True)
            found.append(("status_message", {"status_message": progress.message, **step}))
        if memo.TASK_COMPLETED in fields:
            found.extend(self._task_completed(await self.decode(fields[memo.TASK_COMPLETED], TaskCompleted)))
        return found

    async def _ended(self, entry: HistoryEvent) -> list[NamedData]:
        """Events for the end of a workflow whose task had not ended before."""
        outcome = await history_details.outcome_of_end(self._converter, entry)
        if outcome is None:
            error = await self._error_of_end(entry)
            status = histories.ABNORMAL_ENDS[entry.event_type]
            return [("task_completed", _abnormal_end(self._task_id, status, error))]
        return self._task_completed(TaskCompleted.by(outcome, task_id=self._task_id, tool=self._tool))

    def _task_completed(self, event: TaskCompleted) -> list[NamedData]:
        self._completed = True
        stored = self._stored.get(event.locator or "")
        completed = _data_of(event, compressed=True, summary=stored.summary) if stored else event
        if event.status is TaskStatus.CANCELLED:
            return [("task_completed", completed)]
        return [("handler_returned", completed), ("task_completed", completed)]


def _watch_ended(watched: WatchedRun | None) -> list[NamedData]:
    """The event of an awaited run that has ended, because no follower may have seen the last heartbeat."""
    if watched is None or watched.run_status not in FINAL_RUN_STATUSES:
        return []
    return [("status_message", _data_of(watched, status_message=watched.in_words))]


async def task_events(
    client: Client, task_id: str, *, after: Position = (0, 0), wait: bool = True, room: Room | None = None
) -> AsyncGenerator[TaskEvent]:
    """The durable events of a task after a position, to the end of its workflow. Silent during an outage of Temporal.

    Without `wait`, only those so far. With `room`, each occupies it until the next one is requested.
    """
    converter = client.data_converter
    history = histories.follow_history(
        client, task_id, None, lambda _: _TaskFold(converter, task_id), wait=wait, room=room
    )
    async with aclosing(history):
        async for event in history:
            if (position := position_of(event.id)) > after:
                after = position
                yield event
            del event


class _Sent:
    """The progress of the events of the history in a stream, which status messages follow."""

    def __init__(self) -> None:
        self.past = asyncio.Event()
        """Set when all past events have been sent."""
        self.run_start = asyncio.Event()
        """Set when the start of the run has been sent."""


class _Merged:
    """Events from several sources for one reader. A source produces the next event only on request."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[TaskEvent | Exception | None] = asyncio.Queue(maxsize=1)

    async def put(self, item: TaskEvent | Exception | None) -> None:
        """Send `item`, and wait for the request for the next one. None and errors end the stream."""
        await self._queue.put(item)
        await self._queue.join()

    async def events(self) -> AsyncGenerator[TaskEvent]:
        """The events, to the end. Raises the error of a source."""
        while (item := await self._queue.get()) is not None:
            if isinstance(item, Exception):
                raise item
            yield item
            del item
            self._queue.task_done()


async def stream_events(
    client: Client, task_id: str, *, after: Position, room: Room | None = None
) -> AsyncGenerator[TaskEvent]:
    """Durable events and status messages of a task, until its workflow has ended. Silent during an outage of Temporal.

    With `room`, each durable event occupies it until the next one is requested.
    """
    merged, sent = _Merged(), _Sent()
    pumps = [
        asyncio.create_task(_pump_events(client, task_id, after, room, merged, sent)),
        asyncio.create_task(_pump_status_messages(client.get_workflow_handle(task_id), merged, sent)),
    ]
    try:
        async with aclosing(merged.events()) as events:
            async for event in events:
                yield event
                del event
    finally:
        for pump in pumps:
            pump.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*pumps)


async def _pump_events(
    client: Client, task_id: str, after: Position, room: Room | None, merged: _Merged, sent: _Sent
) -> None:
    """Past events first, so that no current status message comes before them; then new events."""
    if after != (0, 0):
        sent.run_start.set()  # A resumed stream may have sent it; its history is not read again.
    try:
        for wait in (False, True):
            async with aclosing(task_events(client, task_id, after=after, wait=wait, room=room)) as events:
                async for event in events:
                    after, is_start = position_of(event.id), event.name in ("run_started", "run_resurrected")
                    await merged.put(event)
                    del event
                    if is_start:
                        sent.run_start.set()
            sent.past.set()
        await merged.put(None)
    except Exception as error:  # noqa: BLE001  # raised by the reader
        await merged.put(error)


async def _pump_status_messages(handle: WorkflowHandle[Any, Any], merged: _Merged, sent: _Sent) -> None:
    await sent.past.wait()
    shown: str | None = None
    try:
        with histories.DESCRIPTIONS.follower():
            while True:
                found = await _task_or_outage(handle)
                if found is None or found[0].finished_at is not None:
                    return
                task, watched = found
                message = watched.in_words if watched is not None else _progress_of(task)
                is_early = task.run is not None and not sent.run_start.is_set()
                if message and message != shown and not is_early:
                    shown = message
                    await merged.put(_status_message(task, message, watched))
                await asyncio.sleep(histories.DESCRIPTIONS.pause_seconds(STATUS_POLL_SECONDS))
    except Exception as error:  # noqa: BLE001  # raised by the reader
        await merged.put(error)


async def _task_or_outage(handle: WorkflowHandle[Any, Any]) -> tuple[Task, WatchedRun | None] | None:
    """The task, as soon as Temporal answers, and a run that it watches; None for a workflow of another kind."""
    while True:
        try:
            described = await handle.describe()
            task = await task_view.task_from(described, ui_url=None, namespace="")
            if task is None:
                return None
            return task, await task_view.latest_heartbeat(described, history_details.WATCH_RUN, WatchedRun)
        except (RPCError, RuntimeError) as error:
            if not is_outage(error):
                raise
        await histories.OUTAGES.pause(histories.OUTAGE_PAUSE_SECONDS)


def position_of(event_id: str | None) -> Position:
    """The position of an event by its id; the beginning for None. Raises `BadRequest` for a malformed id."""
    entry, count = parts_of_id(_ID, event_id) or (0, 0)
    return int(entry), int(count)


def _progress_of(task: Task) -> str | None:
    """The current status message; for a completed task that of its run, which may still be running."""
    if task.is_final:
        return task.run.status_message if task.run else None
    if task.status is TaskStatus.QUEUED or task.status_message == task_view.RUN_STARTED_MESSAGE:
        return None  # It is an event of the history.
    durable = task.progress if not isinstance(task.progress, task_view.LiveProgress) else None
    sent = durable.message if durable else None  # It is an event of the history.
    return task.status_message if task.status_message != sent else None


def _status_message(task: Task, message: str, watched: WatchedRun | None) -> TaskEvent:
    data: dict[str, Any] = {"status_message": message, "status": str(task.status)}
    if watched is not None:
        data |= watched.model_dump(exclude_none=True)
    if task.run is not None:
        data["run_status"] = task.run.status
    if isinstance(task.progress, task_view.LiveProgress):
        data |= task.progress.model_dump(include={"done", "total"}, exclude_none=True)
    return TaskEvent(name="status_message", time=datetime.now(UTC), data=data)


def _abnormal_end(task_id: str, message: str, error: ErrorEnvelope | None) -> TaskCompleted:
    error = error or ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, "", message)
    return TaskCompleted(
        task_id=task_id,
        tool=error.tool,
        status=TaskStatus.CANCELLED if was_cancelled(error) else TaskStatus.FAILED,
        message=error.message[:200],
        error=error,
    )
