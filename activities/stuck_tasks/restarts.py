"""The input with which a stuck workflow is started again, read from its history and memo. A dispatcher, a queue of
events and subscriptions continue as they were. A batch ends: the state of its items is kept, so that it can be resumed.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from pydantic import BaseModel, ValidationError
from temporalio.api.enums.v1 import EventType
from temporalio.api.history.v1 import HistoryEvent
from temporalio.client import WorkflowExecutionDescription
from temporalio.converter import DataConverter

from outlast.activities.batches import contracts as batches
from outlast.activities.contracts import JsonObject
from outlast.activities.dispatch.contracts import DISPATCH_WORKFLOW, LOOK_SIGNAL, DispatchInput
from outlast.activities.stuck_tasks.assess import Stuck, is_cancelled
from outlast.activities.stuck_tasks.contracts import END_STUCK, EndStuckInput
from outlast.activities.stuck_tasks.histories import decoded, decoded_json, input_of, signals
from outlast.activities.webhooks import contracts as webhooks
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
