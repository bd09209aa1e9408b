"""Metrics of the items of batches, exported with the worker's Temporal metrics."""

from temporalio import activity

from outlast.activities.batches.contracts import ItemOutcome


def count_item(outcome: ItemOutcome, *, reused: bool) -> None:
    """Count an item that has its answer, `reused` from an equal call. One whose row was lost counts again."""
    counter = activity.metric_meter().create_counter("outlast_batch_items", "Items of batches that have ended.")
    counter.add(1, {"outcome": outcome.status, "reused": str(reused).lower()})
