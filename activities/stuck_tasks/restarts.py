"""The input with which a stuck workflow is started again, read from its history and memo.

A dispatcher, a queue of events and subscriptions continue as they were. A batch ends: what it knows of its items is
kept, so that it can be resumed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import BaseModel, ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionDescription
from temporalio.converter import DataConverter

from outlast.activities.batches.contracts import (
    BATCH_WORKFLOW,
    BatchOptions,
    BatchPlace,
    BatchState,
    RoundInput,
    StopReason,
)
from outlast.activities.contracts import JsonObject
from outlast.activities.dispatch.contracts import DISPATCH_WORKFLOW, LOOK_SIGNAL, DispatchInput
from outlast.activities.stuck_tasks.assess import Stuck, is_cancelled
from outlast.activities.stuck_tasks.contracts import END_STUCK, EndStuckInput
from outlast.activities.stuck_tasks.histories import decoded, decoded_json, input_of, signals
from outlast.activities.webhooks.contracts import (
    ENQUEUE_SIGNAL,
    QUEUE_WORKFLOW,
    SUBSCRIPTIONS_MEMO,
    SUBSCRIPTIONS_WORKFLOW,
    EnqueuedTogether,
    SubscriptionsState,
)
from outlast.activities.webhooks.waiting import QueueState

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
    """The input of the next run; None when nothing is known to start it with, or it was restarted before."""
    read = _RESTARTS.get(workflow.description.workflow_type)
    return await read(workflow) if read is not None else None


async def _dispatcher(workflow: StuckWorkflow) -> DispatchInput | None:
    """What the last signal said that can be read."""
    for payloads in (*reversed(signals(workflow.events, LOOK_SIGNAL)), input_of(workflow.events)):
        request = await decoded(workflow.converter, payloads, DispatchInput)
        if request is not None:
            return request
    return None


async def _queue(workflow: StuckWorkflow) -> QueueState | None:
    """The deliveries that were added to the queue. Those that have ended since are found to have ended."""
    state = await decoded(workflow.converter, input_of(workflow.events), QueueState)
    if state is None:
        return None
    for payloads in signals(workflow.events, ENQUEUE_SIGNAL):
        together = await decoded(workflow.converter, payloads, EnqueuedTogether)
        for entry in together.entries if together is not None else ():
            state.add(entry, _MIDDLE)
            state.clock = entry.now if state.clock is None else max(state.clock, entry.now)
    return state


async def _subscriptions(workflow: StuckWorkflow) -> SubscriptionsState | None:
    """The subscriptions as they are in the memo after each change."""
    memo = workflow.description.raw_description.workflow_execution_info.memo.fields
    if SUBSCRIPTIONS_MEMO in memo:
        return await decoded(workflow.converter, [memo[SUBSCRIPTIONS_MEMO]], SubscriptionsState)
    return await decoded(workflow.converter, input_of(workflow.events), SubscriptionsState)


async def _end_of_stuck(workflow: StuckWorkflow) -> EndStuckInput | None:
    return await decoded(workflow.converter, input_of(workflow.events), EndStuckInput)


async def _batch(workflow: StuckWorkflow) -> JsonObject | None:
    """The input with which the batch only ends: with the results so far, and a reason."""
    given = await decoded_json(workflow.converter, input_of(workflow.events))
    restarted_before = RESTARTED_MEMO in workflow.description.raw_description.workflow_execution_info.memo.fields
    if given is None or restarted_before or not _is_batch(given):
        return None
    state, horizon = await _state_of(workflow, BatchState.model_validate(given["state"]))
    cancelled = is_cancelled(workflow.description)
    if not cancelled and state.stop is None:
        words = f"it could not continue: a step of its workflow failed {workflow.stuck.attempts} times"
        reason = {"stop": StopReason.DEFECT, "stop_words": f"{words} ({workflow.stuck.reason})"}
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
    """Whether the parts of a batch's input can be read."""
    try:
        BatchPlace.model_validate(given.get("place"))
        BatchOptions.model_validate(given.get("options"))
        BatchState.model_validate(given.get("state"))
    except ValidationError:
        return False
    return True


async def _state_of(workflow: StuckWorkflow, state: BatchState) -> tuple[BatchState, int | None]:
    """The last known state, and up to where the round after it may have started items; None when there was none."""
    horizon: int | None = None
    rounds = dict[int, str]()
    for event in workflow.events:
        if event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_SCHEDULED:
            scheduled = event.activity_task_scheduled_event_attributes
            rounds[event.event_id] = scheduled.activity_type.name
            if scheduled.activity_type.name == _ROUND:
                begun = await decoded(workflow.converter, scheduled.input.payloads, RoundInput)
                horizon = begun.horizon if begun is not None else horizon
        elif event.event_type == EventType.EVENT_TYPE_ACTIVITY_TASK_COMPLETED:
            completed = event.activity_task_completed_event_attributes
            if rounds.get(completed.scheduled_event_id) not in (_ROUND, _LEG):
                continue
            result = await decoded(workflow.converter, completed.result.payloads, BatchState)
            if result is not None:
                state, horizon = result, None
    for pending in workflow.description.raw_description.pending_activities:
        if pending.activity_type.name == _ROUND and pending.heartbeat_details.payloads:
            state = await decoded(workflow.converter, pending.heartbeat_details.payloads, BatchState) or state
    return state, horizon


_RESTARTS: Mapping[str, Callable[[StuckWorkflow], Awaitable[BaseModel | JsonObject | None]]] = MappingProxyType(
    {
        BATCH_WORKFLOW: _batch,
        DISPATCH_WORKFLOW: _dispatcher,
        QUEUE_WORKFLOW: _queue,
        SUBSCRIPTIONS_WORKFLOW: _subscriptions,
        END_STUCK: _end_of_stuck,
    }
)
