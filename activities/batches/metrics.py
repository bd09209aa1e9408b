"""Metrics of the items of batches, exported with the worker's Temporal metrics."""

from temporalio import activity

from outlast.activities.batches.contracts import ItemOutcome


def count_item(outcome: ItemOutcome) -> None:
    """Count an item that has its answer. One whose row was lost with its worker counts again."""
    counter = activity.metric_meter().create_counter("outlast_batch_items", "Items of batches that have ended.")
    counter.add(1, {"outcome": outcome.status})
