"""The events of a task's life, read from its history.

The history is the event log: it is durable, ordered, needs no worker to be read, and its event ids make a stream that
can be resumed anywhere. What is not durable, the run's status message, comes from the heartbeat of the activity that
follows the run, and costs no history.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal

from pydantic import BaseModel
from temporalio.api.common.v1 import Payload
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowHandle
from temporalio.converter import DataConverter
from temporalio.service import RPCError

from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.outputs.contracts import StoredDataset, StoredOutput
from outlast.activities.runs.contracts import AbortResult, RunState
from outlast.api.contracts.events import TaskEvent, TaskEventName
from outlast.api.contracts.tasks import Task
from outlast.api.temporal.errors import is_outage
from outlast.api.temporal.question_events import QuestionLog
from outlast.api.temporal.task_view import LiveProgress, task_from
from outlast.workflows.contracts import memo
from outlast.workflows.contracts.questions import InputRequests, SubmitInput
from outlast.workflows.contracts.tool_calls import Progress, TaskCompleted, TaskStatus, TaskSummary

STATUS_POLL_SECONDS = 1.0
ANSWERS_UPDATE = "submit_input"
"""`ToolCallWorkflow.submit_input`."""
OUTAGE_PAUSE_SECONDS = 1.0

_ABNORMAL_ENDS = {
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_FAILED: "The workflow failed.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED: "An operator terminated the workflow.",
    EventType.EVENT_TYPE_WORKFLOW_EXECUTION_TIMED_OUT: "The workflow timed out.",
}


class StepMessage(BaseModel):
    """What a handler says of its progress."""

    status_message: str
    done: float
    total: float | None = None


class OutputStored(StoredOutput):
    """An output that was stored, as an event."""

    compressed: Literal[True] = True


class CompletedWithOutput(TaskCompleted):
    """The task-completed event of a call whose output was stored."""

    compressed: Literal[True] = True
    summary: str


class EventLog:
    """Reads one task's history as events."""

    def __init__(self, handle: WorkflowHandle[Any, Any], converter: DataConverter) -> None:
        """Read through `handle`."""
        self._handle = handle
        self._converter = converter
        self._activity_types: dict[int, str] = {}
        self._completed = False
        self._ended_runs: set[str] = set()
        self._stored: dict[str, StoredOutput] = {}
        self._questions = QuestionLog()

    async def follow(self, *, after: tuple[int, int] = (0, 0), wait: bool = True) -> AsyncIterator[TaskEvent]:
        """Durable events after the position `after`, as they happen, until the workflow has ended.

        Without `wait`, only those that have happened already.
        """
        async for event in self._handle.fetch_history_events(wait_new_event=wait):
            position = 0
            async for name, data in self._read(event):
                position += 1
                if (event.event_id, position) > after:
                    yield TaskEvent(
                        name=name,
                        id=f"{event.event_id}.{position}",
                        time=event.event_time.ToDatetime(tzinfo=UTC),
                        data=data.model_dump(mode="json", exclude_none=True),
                    )

    async def _read(self, event: HistoryEvent) -> AsyncIterator[tuple[TaskEventName, BaseModel]]:
        match event.event_type:
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_STARTED:
                fields = event.workflow_execution_started_event_attributes.memo.fields
                if memo.SUMMARY in fields:
                    yield "created", await self._decode(fields[memo.SUMMARY], TaskSummary)
            case EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED | EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
                async for entry in self._of_activity(event):
                    yield entry
            case EventType.EVENT_TYPE_WORKFLOW_EXECUTION_UPDATE_ACCEPTED:
                async for entry in self._answers(event):
                    yield entry
            case EventType.EVENT_TYPE_WORKFLOW_PROPERTIES_MODIFIED:
                async for entry in self._memo_changes(event):
                    yield entry
            case end if end in _ABNORMAL_ENDS and not self._completed:
                yield "task_completed", _abnormal_end(self._handle.id, _ABNORMAL_ENDS[end])
            case _:
                pass

    async def _of_activity(self, event: HistoryEvent) -> AsyncIterator[tuple[TaskEventName, BaseModel]]:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            self._activity_types[event.event_id] = scheduled.activity_type.name
            return
        async for ended in self._runs_ended(event):
            # A run that is aborted is seen to end twice: by whoever follows it and by whoever aborts it.
            if ended.run_id not in self._ended_runs:
                self._ended_runs.add(ended.run_id)
                yield "run_finished", ended
        async for stored in self._outputs_stored(event):
            self._stored[stored.locator] = stored
            yield "output_stored", stored

    async def _answers(self, event: HistoryEvent) -> AsyncIterator[tuple[TaskEventName, BaseModel]]:
        """What clients have answered. Other updates, such as questions of a proxied server, are no events."""
        update = event.workflow_execution_update_accepted_event_attributes.accepted_request.input
        if update.name == ANSWERS_UPDATE and update.args.payloads:
            for answered in self._questions.answered(await self._decode(update.args.payloads[0], SubmitInput)):
                yield answered

    async def _memo_changes(self, event: HistoryEvent) -> AsyncIterator[tuple[TaskEventName, BaseModel]]:
        fields = event.workflow_properties_modified_event_attributes.upserted_memo.fields
        if memo.RUN_STARTED in fields:
            yield "run_started", await self._decode(fields[memo.RUN_STARTED], RunState)
        if memo.INPUT_REQUESTS in fields:
            asked = await self._decode(fields[memo.INPUT_REQUESTS], InputRequests)
            for name, data in self._questions.asked(asked):
                yield name, data
        if memo.PROGRESS in fields:
            progress = await self._decode(fields[memo.PROGRESS], Progress)
            step = StepMessage(status_message=progress.message, done=progress.done, total=progress.total)
            yield "status_message", step
        if memo.TASK_COMPLETED in fields:
            self._completed = True
            completed = self._with_summary(await self._decode(fields[memo.TASK_COMPLETED], TaskCompleted))
            if completed.status is not TaskStatus.CANCELLED:
                yield "handler_returned", completed
            yield "task_completed", completed

    async def _runs_ended(self, event: HistoryEvent) -> AsyncIterator[RunState]:
        completed = event.activity_task_completed_event_attributes
        kind = self._activity_types.get(completed.scheduled_event_id)
        if kind == "wait_for_run":
            run = await self._decode(completed.result.payloads[0], RunState)
            if run.is_final:
                yield run
        elif kind == "abort_run":
            for run in (await self._decode(completed.result.payloads[0], AbortResult)).runs:
                yield run

    async def _outputs_stored(self, event: HistoryEvent) -> AsyncIterator[OutputStored]:
        completed = event.activity_task_completed_event_attributes
        match self._activity_types.get(completed.scheduled_event_id):
            case "store_dataset":
                output = (await self._decode(completed.result.payloads[0], StoredDataset)).output
            case "store_record" | "store_content":
                output = await self._decode(completed.result.payloads[0], StoredOutput)
            case _:
                return
        yield OutputStored(**output.model_dump())

    def _with_summary(self, completed: TaskCompleted) -> TaskCompleted:
        """`completed` with what is known of the output that it names."""
        stored = self._stored.get(completed.locator or "")
        return CompletedWithOutput(**completed.model_dump(), summary=stored.summary) if stored else completed

    async def _decode(self, payload: Payload, model: type[Any]) -> Any:
        return (await self._converter.decode([payload], [model]))[0]


async def stream_events(
    handle: WorkflowHandle[Any, Any], converter: DataConverter, *, after: tuple[int, int]
) -> AsyncIterator[TaskEvent]:
    """Durable events and status messages of one task, merged, until its workflow has ended.

    While the Temporal server is away the stream is silent, and goes on where it was.
    """
    queue: asyncio.Queue[TaskEvent | BaseException | None] = asyncio.Queue(maxsize=100)
    caught_up = asyncio.Event()
    tasks = [
        asyncio.create_task(_pump_events(lambda: EventLog(handle, converter), after, queue, caught_up)),
        asyncio.create_task(_pump_status_messages(handle, queue, caught_up)),
    ]
    try:
        while (item := await queue.get()) is not None:
            if isinstance(item, BaseException):
                raise item
            yield item
    finally:
        for task in tasks:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*tasks)


async def _pump_events(
    new_log: Callable[[], EventLog],
    after: tuple[int, int],
    queue: "asyncio.Queue[TaskEvent | BaseException | None]",
    caught_up: asyncio.Event,
) -> None:
    """What has happened already first, so that what is going on now is not told before it; then what happens."""
    position = after
    try:
        while True:
            try:
                async for event in new_log().follow(after=position, wait=caught_up.is_set()):
                    await queue.put(event)
                    position = position_of(event.id)
                if caught_up.is_set():
                    break
                caught_up.set()
                continue
            except RPCError as error:
                if not is_outage(error):
                    raise
            await asyncio.sleep(OUTAGE_PAUSE_SECONDS)
        await queue.put(None)
    except Exception as error:  # noqa: BLE001  # raised again by whoever reads the queue
        await queue.put(error)


async def _pump_status_messages(
    handle: WorkflowHandle[Any, Any],
    queue: "asyncio.Queue[TaskEvent | BaseException | None]",
    caught_up: asyncio.Event,
) -> None:
    await caught_up.wait()
    shown: str | None = None
    try:
        while True:
            task = await _task_or_outage(handle)
            if task is None or task.finished_at is not None:
                return
            message = _progress_of(task)
            if message and message != shown:
                shown = message
                await queue.put(_status_message(task, message))
            await asyncio.sleep(STATUS_POLL_SECONDS)
    except Exception as error:  # noqa: BLE001  # raised again by whoever reads the queue
        await queue.put(error)


async def _task_or_outage(handle: WorkflowHandle[Any, Any]) -> Task | None:
    """The task as soon as the Temporal server tells it."""
    while True:
        try:
            return await task_from(await handle.describe(), ui_url=None, namespace="")
        except RPCError as error:
            if not is_outage(error):
                raise
        await asyncio.sleep(OUTAGE_PAUSE_SECONDS)


def position_of(event_id: str | None) -> tuple[int, int]:
    """Where in the history an event is; the beginning for None. Raises `ValueError` for what is not an event's id."""
    if not event_id:
        return (0, 0)
    event, _, position = event_id.partition(".")
    return (int(event), int(position))


def _progress_of(task: Task) -> str | None:
    """What is going on. A completed task's own message is its answer, but its run may still have something to say."""
    if task.status.is_final:
        return task.run.status_message if task.run else None
    durable = task.progress if not isinstance(task.progress, LiveProgress) else None
    told = durable.message if durable else None  # An event of the history already.
    return task.status_message if task.status_message != told else None


def _status_message(task: Task, message: str) -> TaskEvent:
    data: dict[str, Any] = {"status_message": message, "status": task.status.value}
    if task.run is not None:
        data["run_status"] = task.run.status
    if isinstance(task.progress, LiveProgress):
        data |= task.progress.model_dump(include={"done", "total"}, exclude_none=True)
    return TaskEvent(name="status_message", time=datetime.now(UTC), data=data)


def _abnormal_end(task_id: str, message: str) -> TaskCompleted:
    envelope = ErrorEnvelope(tool="", message=message, category=ErrorCategory.UNKNOWN, retryable=False)
    return TaskCompleted(task_id=task_id, tool="", status=TaskStatus.FAILED, message=message, error=envelope)
