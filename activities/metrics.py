"""Counters of what the activities did to the outside world, exported with the worker's Temporal metrics."""

from typing import Literal

from temporalio import activity

from activities.output_models import SweepReport

RunEvent = Literal["started", "adopted", "abort_requested"]


def count_run_event(event: RunEvent) -> None:
    """Count a run that was started, one that was adopted after a lost start, or a request to abort one."""
    meter = activity.metric_meter()
    counter = meter.create_counter(
        "outlast_actor_runs", "Actor runs started, adopted after a lost start, or told to abort."
    )
    counter.add(1, {"event": event})


def count_sweep(report: SweepReport) -> None:
    """Count what one page of a sweep of the output store looked at, removed and freed."""
    meter = activity.metric_meter()
    objects = meter.create_counter("outlast_swept_objects", "Objects that a sweep of the output store dealt with.")
    objects.add(report.scanned, {"event": "scanned"})
    objects.add(report.deleted, {"event": "deleted"})
    freed = meter.create_counter("outlast_swept_bytes", "Bytes that a sweep of the output store freed.", "bytes")
    freed.add(report.freed_bytes)
