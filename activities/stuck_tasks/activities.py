"""Activities that deal with a stuck workflow. What it had started is for the workflow that calls them to end.

The input with which a stuck workflow is started again, read from its history and memo. A dispatcher, a queue of
events and subscriptions continue as they were. A batch ends: the state of its items is kept, so that it can be resumed.
"""

import logging
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, cast

from pydantic import BaseModel, ValidationError
from temporalio import activity
from temporalio.api.common.v1 import WorkflowExecution
from temporalio.api.enums.v1 import EventType, WorkflowTaskFailedCause
from temporalio.api.history.v1 import HistoryEvent
from temporalio.api.workflowservice.v1 import ResetWorkflowExecutionRequest
from temporalio.client import Client, WorkflowExecutionDescription, WorkflowExecutionStatus
from temporalio.common import (
    RetryPolicy,
    SearchAttributeKey,
    SearchAttributePair,
    TypedSearchAttributes,
    WorkflowIDConflictPolicy,
    WorkflowIDReusePolicy,
)
from temporalio.converter import DataConverter
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.batches import contracts as batches
from outlast.activities.batches.contracts import BATCH_ATTRIBUTE, BATCH_WORKFLOW
from outlast.activities.contracts import Caller, Contract, ErrorCategory, ErrorEnvelope, JsonObject
from outlast.activities.dispatch.contracts import DISPATCH_WORKFLOW, LOOK_SIGNAL, DispatchInput
from outlast.activities.failures.classify import as_activity_failure
from outlast.activities.heartbeat import activity_scope
from outlast.activities.runs.contracts import AbortRunInput, ResurrectRunInput, RunState, StartRunInput, operation_id
from outlast.activities.schedules.contracts import FIRING_WORKFLOW, FiringStart, StartFiringInput
from outlast.activities.stuck_tasks import contracts as stuck_tasks
from outlast.activities.stuck_tasks.assess import Stuck, assess, is_cancelled
from outlast.activities.stuck_tasks.contracts import END_STUCK, EndStuckInput
from outlast.activities.stuck_tasks.histories import ActivityResults, decoded, decoded_json, input_of, signals
from outlast.activities.webhooks import contracts as webhooks
from outlast.activities.webhooks.contracts import DELIVERY_WORKFLOW, EventSubject, WebhookListener
from outlast.activities.webhooks.waiting import QueueState
from outlast.activities.workflow_requests import ignore_missing

RESTARTED_MEMO = "outlast_restarted"
"""Set in the memo of a batch that was stuck, and is started again to end: if it is stuck again, it is terminated."""

_ROUND, _LEG = "carry_on_batch", "prepare_batch_leg"
_MIDDLE = 0.5
"""In place of a random number between 0 and 1."""


@dataclass(frozen=True)
class StuckWorkflow:
    """A workflow that is stuck, and its history."""

    description: WorkflowExecutionDescription
    events: Sequence[HistoryEvent]
    stuck: Stuck
    converter: DataConverter


async def restart_input(workflow: StuckWorkflow) -> BaseModel | JsonObject | None:
    """Return the input of the next run; None when nothing is known to start it with, or it was restarted before."""
    read = _RESTARTS.get(workflow.description.workflow_type)
    return await read(workflow) if read is not None else None


async def _dispatcher(workflow: StuckWorkflow) -> DispatchInput | None:
    """Return the input of the last signal that can be read."""
    for payloads in (*reversed(signals(workflow.events, LOOK_SIGNAL)), input_of(workflow.events)):
        request = await decoded(workflow.converter, payloads, DispatchInput)
        if request is not None:
            return request
    return None


async def _queue(workflow: StuckWorkflow) -> QueueState | None:
    """Return the deliveries that were added to the queue. Those that have ended since are found to have ended."""
    state = await decoded(workflow.converter, input_of(workflow.events), QueueState)
    if state is None:
        return None
    for payloads in signals(workflow.events, webhooks.ENQUEUE_SIGNAL):
        together = await decoded(workflow.converter, payloads, webhooks.EnqueuedTogether)
        for entry in together.entries if together is not None else ():
            state.add(entry, _MIDDLE)
            state.clock = entry.now if state.clock is None else max(state.clock, entry.now)
    return state


async def _subscriptions(workflow: StuckWorkflow) -> webhooks.SubscriptionsState | None:
    """Return the subscriptions as they are in the memo after each change."""
    memo = workflow.description.raw_description.workflow_execution_info.memo.fields
    if webhooks.SUBSCRIPTIONS_MEMO in memo:
        return await decoded(workflow.converter, [memo[webhooks.SUBSCRIPTIONS_MEMO]], webhooks.SubscriptionsState)
    return await decoded(workflow.converter, input_of(workflow.events), webhooks.SubscriptionsState)


async def _end_of_stuck(workflow: StuckWorkflow) -> EndStuckInput | None:
    return await decoded(workflow.converter, input_of(workflow.events), EndStuckInput)


async def _batch(workflow: StuckWorkflow) -> JsonObject | None:
    """Return the input with which the batch only ends: with the results so far, and a reason."""
    given = await decoded_json(workflow.converter, input_of(workflow.events))
    restarted_before = RESTARTED_MEMO in workflow.description.raw_description.workflow_execution_info.memo.fields
    if given is None or restarted_before or not _is_batch(given):
        return None
    state, horizon = await _state_of(workflow, batches.BatchState.model_validate(given["state"]))
    cancelled = is_cancelled(workflow.description)
    if not cancelled and state.stop is None:
        words = f"it could not continue: a step of its workflow failed {workflow.stuck.attempts} times"
        reason = {"stop": batches.StopReason.DEFECT, "stop_words": f"{words} ({workflow.stuck.reason})"}
        state = state.model_copy(update=reason)
    began = workflow.description.start_time.isoformat()
    changes: JsonObject = {
        "state": state.model_dump(mode="json"),
        "leg": None,
        "began": given.get("began") or began,
        "cancelled": cancelled,
        "lost_horizon": horizon,
    }
    return {**given, **changes}


def _is_batch(given: JsonObject) -> bool:
    """Return True if the parts of a batch's input can be read."""
    try:
        batches.BatchPlace.model_validate(given.get("place"))
        batches.BatchOptions.model_validate(given.get("options"))
        batches.BatchState.model_validate(given.get("state"))
    except ValidationError:
        return False
    return True


async def _state_of(workflow: StuckWorkflow, state: batches.BatchState) -> tuple[batches.BatchState, int | None]:
    """The last known state, and up to where the round after it may have started items; None when there was none."""
    horizon: int | None = None
    rounds = dict[int, str]()
    for event in workflow.events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            rounds[event.event_id] = scheduled.activity_type.name
            if scheduled.activity_type.name == _ROUND:
                begun = await decoded(workflow.converter, scheduled.input.payloads, batches.RoundInput)
                horizon = begun.horizon if begun is not None else horizon
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            completed = event.activity_task_completed_event_attributes
            if rounds.get(completed.scheduled_event_id) not in (_ROUND, _LEG):
                continue
            result = await decoded(workflow.converter, completed.result.payloads, batches.BatchState)
            if result is not None:
                state, horizon = result, None
    for pending in workflow.description.raw_description.pending_activities:
        if pending.activity_type.name == _ROUND and pending.heartbeat_details.payloads:
            state = await decoded(workflow.converter, pending.heartbeat_details.payloads, batches.BatchState) or state
    return state, horizon


_RESTARTS: Mapping[str, Callable[[StuckWorkflow], Awaitable[BaseModel | JsonObject | None]]] = MappingProxyType(
    {
        batches.BATCH_WORKFLOW: _batch,
        DISPATCH_WORKFLOW: _dispatcher,
        webhooks.QUEUE_WORKFLOW: _queue,
        webhooks.SUBSCRIPTIONS_WORKFLOW: _subscriptions,
        END_STUCK: _end_of_stuck,
    }
)


END_ATTEMPT_TIMEOUT = timedelta(minutes=1)
END_RETRY_POLICY = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_interval=timedelta(minutes=1))
CANCEL_ITEMS_TIMEOUT = timedelta(minutes=10)
CANCEL_ITEMS_HEARTBEAT_TIMEOUT = timedelta(seconds=30)

_TOOL = SearchAttributeKey.for_keyword("OutlastTool")
_ACTOR = SearchAttributeKey.for_keyword("OutlastActor")
_CALLER = SearchAttributeKey.for_keyword("OutlastCaller")
_SESSION = SearchAttributeKey.for_keyword("OutlastSession")
_OURS = "Outlast"
_START_FIRING = "start_firing"
_NAMES = {
    stuck_tasks.TASK: ("Call again", "task"),
    stuck_tasks.TURN: ("Send the message again", "turn"),
    stuck_tasks.SESSION: ("Begin another session", "session"),
    BATCH_WORKFLOW: ("Start another batch with the items that are left", "batch"),
    FIRING_WORKFLOW: ("Trigger the schedule again", "firing"),
    DELIVERY_WORKFLOW: ("Replay the event", "delivery"),
}
"""By type of workflow: advice to its caller, and the word for it."""
_WITH_RUNS = frozenset({stuck_tasks.TASK, stuck_tasks.TURN})
_log = logging.getLogger(__name__)


class StuckTaskActivities:
    """Deals with workflows that cannot continue."""

    def __init__(self, client: Client) -> None:
        self._client = client

    @activity.defn
    async def end_stuck_task(self, request: stuck_tasks.EndStuckInput) -> stuck_tasks.StuckEnd:
        """Terminate, restart or reset the workflow if it is still stuck. Repeated after a lost answer, it gives the
        same answer for one that was terminated.
        """
        with as_activity_failure():
            try:
                found = await assess(self._client, request.workflow_id, request.run_id, request.limits)
            except RPCError as error:
                if error.status is RPCStatusCode.NOT_FOUND:
                    return stuck_tasks.StuckEnd()
                raise
            description, events, stuck = found
            if stuck is None:
                error = await self._error_of_end(description, events)
                return stuck_tasks.StuckEnd() if error is None else await self._ended(description, events, error)
            remedy = await remedied(self._client, description, events, stuck)
            if remedy is not None:
                _count(description.workflow_type, remedy)
                return stuck_tasks.StuckEnd(remedy=remedy)
            if stuck_tasks.REMEDIES.get(description.workflow_type) is stuck_tasks.Remedy.RESET:
                _log.error("%s cannot continue, and is left to operators: %s", request.workflow_id, stuck.reason)
                return stuck_tasks.StuckEnd()
            error = _error(description, stuck)
            handle = self._client.get_workflow_handle(request.workflow_id, run_id=request.run_id)
            await handle.terminate(error, reason=error.message)
            _count(description.workflow_type, stuck_tasks.Remedy.ENDED)
            _log.error("%s was ended: %s", request.workflow_id, error.message)
            return await self._ended(description, events, error)

    @activity.defn
    async def cancel_items(self, batch_id: str) -> int:
        """Cancel the tasks of a batch that have not ended. Returns their number."""
        query = f"WorkflowType = '{stuck_tasks.TASK}' AND ExecutionStatus = 'Running'"
        query += f" AND {BATCH_ATTRIBUTE} = '{batch_id}'"
        async with activity_scope():
            found = [one.id async for one in self._client.list_workflows(query)]
            for task_id in found:
                with ignore_missing():
                    await self._client.get_workflow_handle(task_id).cancel()
            return len(found)

    async def _error_of_end(
        self, description: WorkflowExecutionDescription, events: Sequence[HistoryEvent]
    ) -> ErrorEnvelope | None:
        """Return the error with which an earlier attempt ended the workflow; None when it was not ended here."""
        if description.status is not WorkflowExecutionStatus.TERMINATED:
            return None
        details = events[-1].workflow_execution_terminated_event_attributes.details.payloads
        return stuck_tasks.error_of_end(await self._client.data_converter.decode(details))

    async def _ended(
        self, description: WorkflowExecutionDescription, events: Sequence[HistoryEvent], error: ErrorEnvelope
    ) -> stuck_tasks.StuckEnd:
        """Return the work that is left after the end."""
        kind, attributes = description.workflow_type, description.typed_search_attributes
        converter, tool = self._client.data_converter, attributes.get(_TOOL) or ""
        end = stuck_tasks.StuckEnd(
            error=error,
            remedy=stuck_tasks.Remedy.ENDED,
            tool=tool,
            caller_id=attributes.get(_CALLER),
            session_id=attributes.get(_SESSION),
            first_run_id=events[0].workflow_execution_started_event_attributes.first_execution_run_id,
        )
        if kind in _WITH_RUNS:
            end = end.model_copy(update={"runs": await StartedRuns(description, converter).to_abort(events)})
        if kind == BATCH_WORKFLOW:
            return end.model_copy(update={"batch_id": description.id})
        if kind == FIRING_WORKFLOW:
            return end.model_copy(update={"firing": await self._firing(events)})
        call = await decoded(converter, input_of(events), StuckCall) if kind == stuck_tasks.TASK else None
        if call is None or not call.listeners:
            return end
        subject = EventSubject(
            task_id=description.id,
            tool=tool,
            actor=attributes.get(_ACTOR),
            session_id=call.session_id,
            batch_id=call.batch_id,
        )
        return end.model_copy(update={"subject": subject, "listeners": call.listeners})

    async def _firing(self, events: Sequence[HistoryEvent]) -> stuck_tasks.StuckFiring | None:
        """Return the work that a firing has started, or may have started; None if its input cannot be read."""
        converter = self._client.data_converter
        order = await decoded_json(converter, input_of(events))
        if order is None:
            return None
        request: StartFiringInput | None = None
        results = ActivityResults()
        for event in events:
            activity_type, result = results.read(event)
            scheduled = event.activity_task_scheduled_event_attributes
            if scheduled.activity_type.name == _START_FIRING:
                request = await decoded(converter, scheduled.input.payloads, StartFiringInput)
            if activity_type == _START_FIRING and (start := await decoded(converter, result, FiringStart)) is not None:
                return stuck_tasks.StuckFiring(order=order, started=start.started)
        if request is not None:
            # Too late to start anything: its answer is what was started before.
            request = request.model_copy(update={"not_after": datetime.fromtimestamp(0, UTC)})
        return stuck_tasks.StuckFiring(order=order, start=request)


async def remedied(
    client: Client, description: WorkflowExecutionDescription, events: Sequence[HistoryEvent], stuck: Stuck
) -> stuck_tasks.Remedy | None:
    """Restart or reset a stuck workflow, if that is its remedy and can be done. Returns what was done."""
    match stuck_tasks.REMEDIES.get(description.workflow_type):
        case stuck_tasks.Remedy.RESTARTED:
            workflow = StuckWorkflow(description, events, stuck, client.data_converter)
            given = await restart_input(workflow)
            if given is not None and await _restart(client, description, given):
                _log.error("%s was started again: %s", description.id, stuck.reason)
                return stuck_tasks.Remedy.RESTARTED
        case stuck_tasks.Remedy.RESET:
            if await _reset(client, description, events):
                _log.error("%s was taken back to its last completed step: %s", description.id, stuck.reason)
                return stuck_tasks.Remedy.RESET
        case _:
            pass
    return None


async def _restart(client: Client, description: WorkflowExecutionDescription, given: BaseModel | JsonObject) -> bool:
    """Terminate the workflow and start it with another input, in one step; False if it has ended by itself."""
    memo = dict(await description.memo())
    if description.workflow_type == BATCH_WORKFLOW:
        memo[RESTARTED_MEMO] = True
    attributes = cast("Iterable[SearchAttributePair[Any]]", description.typed_search_attributes)
    ours = [pair for pair in attributes if pair.key.name.startswith(_OURS)]
    try:
        await client.start_workflow(
            description.workflow_type,
            given,
            id=description.id,
            task_queue=description.task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
            id_conflict_policy=WorkflowIDConflictPolicy.TERMINATE_EXISTING,
            memo=memo,
            search_attributes=TypedSearchAttributes(ours),
            static_summary=await description.static_summary(),
        )
    except WorkflowAlreadyStartedError:
        return False
    return True


async def _reset(client: Client, description: WorkflowExecutionDescription, events: Sequence[HistoryEvent]) -> bool:
    """Begin the step after the last completed one again, with the signals and updates that came since. False when no
    step was completed, or the workflow was reset before.
    """
    completed = [one for one in events if one.event_type == EventType.EVENT_TYPE_WORKFLOW_TASK_COMPLETED]
    if not completed or any(map(_is_reset, events)):
        return False
    await client.workflow_service.reset_workflow_execution(
        ResetWorkflowExecutionRequest(
            namespace=client.namespace,
            workflow_execution=WorkflowExecution(workflow_id=description.id, run_id=description.run_id),
            reason="A step of it failed again and again.",
            workflow_task_finish_event_id=completed[-1].event_id,
            request_id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{description.run_id} {completed[-1].event_id}")),
        )
    )
    return True


def _is_reset(event: HistoryEvent) -> bool:
    cause = event.workflow_task_failed_event_attributes.cause
    return cause == WorkflowTaskFailedCause.WORKFLOW_TASK_FAILED_CAUSE_RESET_WORKFLOW


def _error(description: WorkflowExecutionDescription, stuck: Stuck) -> ErrorEnvelope:
    kind, tool = description.workflow_type, description.typed_search_attributes.get(_TOOL) or ""
    again, word = _NAMES.get(kind, ("Nothing is lost", "workflow"))
    why = (
        f"a step of its workflow has failed {stuck.attempts} times in {_duration(stuck.seconds)} ({stuck.reason}). "
        "It was ended"
    )
    if kind in _WITH_RUNS:
        why += ", and the runs that it had started are aborted"
    elif kind in (BATCH_WORKFLOW, FIRING_WORKFLOW):
        why += ", and what it had started is cancelled"
    if is_cancelled(description):
        message = f"It was cancelled, and could not end by itself: {why}."
        return ErrorEnvelope.permanent(ErrorCategory.CANCELLED, tool, message)
    hint = f"{again}. When it happens again, report it to the operators with the {word}'s id."
    return ErrorEnvelope.permanent(ErrorCategory.UNKNOWN, tool, f"It could not continue: {why}.", hint=hint)


def _duration(seconds: float) -> str:
    return f"{seconds / 60:.0f} minutes" if seconds >= 120 else f"{seconds:.0f} seconds"


def _count(workflow_type: str, remedy: stuck_tasks.Remedy) -> None:
    meter = activity.metric_meter()
    counter = meter.create_counter(
        "outlast_stuck_workflows_ended", "Workflows that could not continue, and were ended, restarted or reset."
    )
    counter.add(1, {"workflow": workflow_type, "outcome": remedy.value})


_START_RUN = "start_run"
_RESURRECT_RUN = "resurrect_run"
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
        self._description = description
        self._converter = converter
        self._results = ActivityResults()
        self._starts: dict[int, StartRunInput] = {}
        self._runs: dict[int, RunState] = {}
        self._local: RunState | None = None
        self._resurrected: dict[str, ResurrectRunInput] = {}

    async def to_abort(self, events: Sequence[HistoryEvent]) -> tuple[AbortRunInput, ...]:
        """Return the inputs that abort the runs. A start in the first workflow task leaves its result, or nothing."""
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
        if self._description.workflow_type != stuck_tasks.TASK or (self._local is None and not is_unknown):
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
