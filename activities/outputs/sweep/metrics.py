"""Counters of the sweep, exported with the worker's Temporal metrics."""

from temporalio import activity

from outlast.activities.outputs.contracts import SweepReport


def count_sweep(report: SweepReport) -> None:
    """Count the objects that one page of a sweep examined and deleted, and the bytes it freed."""
    meter = activity.metric_meter()
    objects = meter.create_counter("outlast_swept_objects", "Objects that a sweep of the output store dealt with.")
    objects.add(report.scanned, {"event": "scanned"})
    objects.add(report.deleted, {"event": "deleted"})
    freed = meter.create_counter("outlast_swept_bytes", "Bytes that a sweep of the output store freed.", "bytes")
    freed.add(report.freed_bytes)
