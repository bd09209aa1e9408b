"""The Temporal Schedule behind a schedule: when it is due, and what it starts then."""

from datetime import UTC, datetime, timedelta

from temporalio.client import (
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
)

from outlast.activities.schedules.contracts import FIRING_WORKFLOW
from outlast.api.schedules.exact_times import ExactTimes, exact_times
from outlast.workflows.contracts import search_attributes
from outlast.workflows.contracts.queues import TOOLS_TASK_QUEUE
from outlast.workflows.schedules.contracts import FiringInput, Overlap, Timing

OVERLAPS: dict[Overlap, ScheduleOverlapPolicy] = {
    "skip": ScheduleOverlapPolicy.SKIP,
    "buffer_one": ScheduleOverlapPolicy.BUFFER_ONE,
    "buffer_all": ScheduleOverlapPolicy.BUFFER_ALL,
    "cancel_other": ScheduleOverlapPolicy.CANCEL_OTHER,
    "allow_all": ScheduleOverlapPolicy.ALLOW_ALL,
}
"""`TERMINATE_OTHER` is not among them: it would leave running what the earlier firing has started."""


def specification(order: FiringInput, state: ScheduleState) -> Schedule:
    """The Temporal Schedule of `order`, in this state. Its times are computed from `order.timing`, as of today."""
    timing = order.timing
    times = exact_times(timing, datetime.now(UTC))
    order = order.model_copy(update={"times_until": times.until})
    return Schedule(
        action=ScheduleActionStartWorkflow(
            FIRING_WORKFLOW,
            order,
            id=order.temporal_id,
            task_queue=TOOLS_TASK_QUEUE,
            typed_search_attributes=search_attributes.of_schedule(order.caller.id, order.schedule_id),
            static_summary=f"{order.tool} for {order.caller.id}, schedule {order.schedule_id}",
        ),
        spec=_times(timing, times),
        policy=SchedulePolicy(
            overlap=OVERLAPS[timing.overlap], catchup_window=timedelta(seconds=timing.catch_up_seconds)
        ),
        state=state,
    )


def _times(timing: Timing, times: ExactTimes) -> ScheduleSpec:
    return ScheduleSpec(
        cron_expressions=list(times.cron),
        intervals=[
            ScheduleIntervalSpec(
                every=timedelta(seconds=interval.seconds), offset=timedelta(seconds=interval.offset_seconds)
            )
            for interval in timing.every
        ]
        + times.intervals,
        time_zone_name=timing.time_zone,
        jitter=timedelta(seconds=timing.jitter_seconds) if timing.jitter_seconds else None,
        start_at=timing.start_at,
        end_at=timing.end_at,
    )
