"""Counters of started and aborted runs, exported with the worker's Temporal metrics."""

from typing import Literal

from temporalio import activity

RunEvent = Literal["started", "adopted", "resurrected", "taken_over", "handed_over", "abort_requested", "orphaned"]


def count_run_event(event: RunEvent) -> None:
    """Count a run that was started, one that was adopted after a lost start, one that was resurrected, one that another
    attempt follows on after the last one was lost, failed or handed it over, one that a stopping worker hands over, a
    request to abort one, or one that goes on although its task has ended.
    """
    meter = activity.metric_meter()
    counter = meter.create_counter(
        "outlast_actor_runs",
        "Actor runs started, adopted after a lost start, resurrected, taken or handed over, aborted, or orphaned.",
    )
    counter.add(1, {"event": event})
