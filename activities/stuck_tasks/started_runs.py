"""Runs that a workflow has started, or may have started, read from its history."""

from collections.abc import Sequence
from datetime import UTC, datetime

from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionDescription
from temporalio.common import SearchAttributeKey
from temporalio.converter import DataConverter

from outlast.activities.activity_results import ActivityResults
from outlast.activities.contracts import Caller, Contract
from outlast.activities.runs.contracts import AbortRunInput, ResurrectRunInput, RunState, StartRunInput
from outlast.activities.runs.operation_ids import operation_id
from outlast.activities.stuck_tasks.contracts import TASK
from outlast.activities.stuck_tasks.histories import decoded
from outlast.activities.webhooks.contracts import WebhookListener

_START_RUN = "start_run"
_RESURRECT_RUN = "resurrect_run"
_ACTOR = SearchAttributeKey.for_keyword("OutlastActor")
_NO_ACTOR = ":"
"""`user/name:tool` is a tool of an Actor that is an MCP server: its call starts no run."""


class StuckCall(Contract):
    """The part of a task's input that its end needs."""

    caller: Caller
    session_id: str | None = None
    batch_id: str | None = None
    listeners: tuple[WebhookListener, ...] = ()


class StartedRuns:
    """Reads one history from its beginning."""

    def __init__(self, description: WorkflowExecutionDescription, converter: DataConverter) -> None:
        """Of the workflow that is described."""
        self._description = description
        self._converter = converter
        self._results = ActivityResults()
        self._starts: dict[int, StartRunInput] = {}
        self._runs: dict[int, RunState] = {}
        self._local: RunState | None = None
        self._resurrected: dict[str, ResurrectRunInput] = {}

    async def to_abort(self, events: Sequence[HistoryEvent]) -> tuple[AbortRunInput, ...]:
        """What aborts the runs. A start within the first task leaves its result, or nothing if that was lost."""
        if not events:
            return ()
        for event in events:
            await self._read_event(event)
        began = events[0].event_time.ToDatetime(tzinfo=UTC)
        scheduled = tuple(
            AbortRunInput(
                caller=start.caller,
                run_id=self._runs[number].run_id if number in self._runs else None,
                actor=start.spec.actor,
                operation_id=start.operation_id,
                since=began,
            )
            for number, start in self._starts.items()
        )
        going_on = tuple(
            AbortRunInput(caller=one.caller, run_id=one.run_id, ended_before=one.ended.finished_at)
            for one in self._resurrected.values()
        )
        return (*await self._started_locally(events[0], began), *scheduled, *going_on)

    async def _read_event(self, event: HistoryEvent) -> None:
        activity, result = self._results.read(event)
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name == _START_RUN:
                start = await decoded(self._converter, scheduled.input.payloads, StartRunInput)
                if start is not None:
                    self._starts[event.event_id] = start
            elif scheduled.activity_type.name == _RESURRECT_RUN:
                request = await decoded(self._converter, scheduled.input.payloads, ResurrectRunInput)
                if request is not None:
                    self._resurrected[request.run_id] = request
        elif activity == _START_RUN:
            run = await decoded(self._converter, result, RunState)
            if event.event_type == EventType.EVENT_TYPE_MARKER_RECORDED:
                self._local = run
            elif run is not None:
                self._runs[event.activity_task_completed_event_attributes.scheduled_event_id] = run

    async def _started_locally(self, first: HistoryEvent, began: datetime) -> tuple[AbortRunInput, ...]:
        """The call's first run. Without a trace in the history it may be there all the same, and is looked for."""
        started = first.workflow_execution_started_event_attributes
        own_id = operation_id(
            namespace=self._description.namespace,
            workflow_id=self._description.id,
            first_run_id=started.first_execution_run_id,
            number=1,
        )
        actor = self._description.typed_search_attributes.get(_ACTOR)
        is_scheduled = any(start.operation_id == own_id for start in self._starts.values())
        is_unknown = not is_scheduled and actor is not None and _NO_ACTOR not in actor
        if self._description.workflow_type != TASK or (self._local is None and not is_unknown):
            return ()
        call = await decoded(self._converter, started.input.payloads[:1], StuckCall)
        if call is None:
            return ()  # A call that cannot be read has started nothing.
        run = AbortRunInput(
            caller=call.caller,
            run_id=self._local.run_id if self._local else None,
            actor=actor,
            operation_id=own_id,
            since=began,
        )
        return (run,)
