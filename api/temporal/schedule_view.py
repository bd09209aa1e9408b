"""Converts Temporal's description of a schedule, and of its firings, to a `Schedule`. Needs no worker."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

from pydantic import JsonValue
from temporalio import client as temporal
from temporalio.service import RPCError, RPCStatusCode

from outlast.activities.schedules.activities import read_note
from outlast.activities.schedules.contracts import Due
from outlast.activities.secrets import masked
from outlast.api.temporal.history_details import error_of_stuck, was_cancelled
from outlast.api.temporal.task_view import memo_model
from outlast.contracts.schedules import Firing, Schedule
from outlast.worker.payloads import UNREADABLE, PayloadUnreadable
from outlast.workflows.contracts import memo, search_attributes
from outlast.workflows.schedules.contracts import FiringInput, FiringProgress, FiringStatus

MAX_NEXT = 10
"""Due times that a schedule shows."""
_GONE = RPCStatusCode.NOT_FOUND
_ENDED_ABNORMALLY = {
    temporal.WorkflowExecutionStatus.FAILED: FiringStatus.FAILED,
    temporal.WorkflowExecutionStatus.TIMED_OUT: FiringStatus.FAILED,
    temporal.WorkflowExecutionStatus.TERMINATED: FiringStatus.CANCELLED,
    temporal.WorkflowExecutionStatus.CANCELED: FiringStatus.CANCELLED,
}


async def order_of(description: temporal.ScheduleDescription) -> FiringInput | None:
    """The input of a schedule's firings; None for a schedule of another application.

    Raises `PayloadUnreadable` if the input is gone, and as `DataConverter.decode` does.
    """
    action = description.schedule.action
    if not isinstance(action, temporal.ScheduleActionStartWorkflow):
        return None
    is_whole = len(action.args) == 1
    order = (await description.data_converter.decode(action.args, [FiringInput]))[0] if is_whole else None
    if order is None:
        raise PayloadUnreadable("The schedule has lost the input of its firings.")
    return cast(FiringInput, order)


async def schedule_from(
    description: temporal.ScheduleDescription,
    order: FiringInput,
    firings: Sequence[Firing],
    *,
    spent_usd: float | None,
    ui_url: str | None,
    namespace: str,
) -> Schedule:
    """The schedule behind `description`, with its known firings."""
    timing, spending, state, info = order.timing, order.spending, description.schedule.state, description.info
    return Schedule(
        id=order.schedule_id,
        caller=order.caller.id,
        note=order.note,
        tool=order.tool,
        **_shown(order.due),  # pyright: ignore[reportArgumentType]  # it has one of three fields
        **timing.model_dump(),
        budget_usd=float(spending.budget_usd) if spending.budget_usd is not None else None,
        pause_on=spending.pause_on,
        paused=state.paused,
        paused_because=await read_note(state.note, description.data_converter) if state.paused else None,
        # Temporal also returns times for a paused schedule, at which nothing is started.
        next=() if state.paused else tuple(info.next_action_times[:MAX_NEXT]),
        recent=tuple(firings),
        fired=info.num_actions,
        skipped=info.num_actions_skipped_overlap,
        missed=info.num_actions_missed_catchup_window,
        spent_usd=spent_usd,
        created_at=order.created_at,
        updated_at=info.last_updated_at,
        schedule_url=f"{ui_url.rstrip('/')}/namespaces/{namespace}/schedules/{order.temporal_id}" if ui_url else None,
    )


def unreadable_schedule(description: temporal.ScheduleDescription, schedule_id: str, reason: str) -> Schedule:
    """A schedule whose record cannot be read: its due times, and the reason."""
    state, info, policy = description.schedule.state, description.info, description.schedule.policy
    return Schedule(
        id=schedule_id,
        caller=description.typed_search_attributes.get(search_attributes.CALLER),
        tool="",
        time_zone=description.schedule.spec.time_zone_name or "UTC",
        jitter_seconds=0,
        overlap="skip",
        catch_up_seconds=round(policy.catchup_window.total_seconds()) if policy and policy.catchup_window else 0,
        pause_on=(),
        paused=state.paused,
        next=() if state.paused else tuple(info.next_action_times[:MAX_NEXT]),
        recent=tuple(firings_without_state(description)),
        fired=info.num_actions,
        skipped=info.num_actions_skipped_overlap,
        missed=info.num_actions_missed_catchup_window,
        created_at=info.created_at,
        updated_at=info.last_updated_at,
        damaged=f"{reason} Create it again (POST /v1/schedules with the same id), or delete it.",
    )


def firings_without_state(description: temporal.ScheduleDescription) -> list[Firing]:
    """The latest firings, the last one first, as Temporal's description has them."""
    found = [_firing(result) for result in reversed(description.info.recent_actions)]
    # Two triggers within one second are one firing.
    return [*{firing.id: firing for firing in found}.values()]


async def latest_firings(
    client: temporal.Client, description: temporal.ScheduleDescription
) -> tuple[list[Firing], float | None]:
    """The latest firings with their state, the last one first; and the cost of all firings, if it is known."""
    found = await asyncio.gather(*(_with_state(client, firing) for firing in firings_without_state(description)))
    spent = next((progress.spent_usd for _, progress in found if progress is not None), None)
    return [firing for firing, _ in found], float(spent) if spent is not None else None


def _shown(due: Due) -> Mapping[str, JsonValue]:
    """The call, saved call or batch of a schedule, as in a request, with masks for secrets."""
    content = cast(dict[str, JsonValue], masked(cast(JsonValue, due.model_dump(mode="json"))))
    if due.saved is not None:
        return {"saved": {"name": due.saved, "arguments": content["arguments"]}}
    return {"call": content["call"]} if due.call is not None else {"batch": content["batch"]}


def _firing(result: temporal.ScheduleActionResult) -> Firing:
    action = result.action
    assert isinstance(action, temporal.ScheduleActionExecutionStartWorkflow), "schedules start workflows"
    return Firing(id=action.workflow_id, scheduled_at=result.scheduled_at, started_at=result.started_at)


async def _with_state(client: temporal.Client, firing: Firing) -> tuple[Firing, FiringProgress | None]:
    try:
        description = await client.get_workflow_handle(firing.id).describe()
    except RPCError as error:
        if error.status is not _GONE:
            raise
        return firing, None
    try:
        recorded = await memo_model(description, memo.FIRING, FiringProgress)
    except UNREADABLE:
        return firing, None
    progress = recorded or FiringProgress(status=FiringStatus.STARTING)
    status = _ENDED_ABNORMALLY.get(description.status, progress.status) if description.status else progress.status
    stuck = await error_of_stuck(client, description)
    if stuck is not None and not was_cancelled(stuck):
        status = FiringStatus.FAILED
    started = progress.started
    state = {
        "status": status,
        "task_id": started.id if started is not None and started.kind == "task" else None,
        "batch_id": started.id if started is not None and started.kind == "batch" else None,
        "cost_usd": float(progress.cost_usd) if started is not None else None,
        "error": stuck or progress.error,
    }
    return firing.model_copy(update=state), recorded
