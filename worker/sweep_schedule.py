"""The Temporal Schedule that sweeps the output store. Every worker that starts updates it to its settings."""

from datetime import timedelta

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleHandle,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.retention import RetentionInput, RetentionWorkflow

SWEEP_SCHEDULE_ID = "outlast-retention"
_CATCH_UP = timedelta(minutes=1)
"""Sweeps missed for longer than this, while the server was down, are skipped."""


async def ensure_sweep_schedule(client: Client, *, interval_seconds: int) -> None:
    """Have the store swept every `interval_seconds`; 0 removes the schedule.

    A schedule that an operator has paused stays paused. Raises `RPCError` when the server refuses.
    """
    handle = client.get_schedule_handle(SWEEP_SCHEDULE_ID)
    if interval_seconds == 0:
        await _delete(handle)
        return
    wanted = _schedule(timedelta(seconds=interval_seconds))
    try:
        await client.create_schedule(SWEEP_SCHEDULE_ID, wanted)
    except ScheduleAlreadyRunningError:
        await handle.update(lambda found: _updated(found, wanted))


def _schedule(interval: timedelta) -> Schedule:
    return Schedule(
        action=ScheduleActionStartWorkflow(
            RetentionWorkflow.run,
            RetentionInput(),
            id=SWEEP_SCHEDULE_ID,
            task_queue=TOOLS_TASK_QUEUE,
            static_summary="sweep of the output store",
        ),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=interval)]),
        policy=SchedulePolicy(overlap=ScheduleOverlapPolicy.SKIP, catchup_window=_CATCH_UP),
    )


def _updated(found: ScheduleUpdateInput, wanted: Schedule) -> ScheduleUpdate | None:
    """Return None if nothing changes: an update restarts the interval, and workers start often."""
    schedule = found.description.schedule
    if schedule.spec.intervals == wanted.spec.intervals and schedule.policy == wanted.policy:
        return None
    wanted.state = schedule.state
    return ScheduleUpdate(schedule=wanted)


async def _delete(handle: ScheduleHandle) -> None:
    try:
        await handle.delete()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
