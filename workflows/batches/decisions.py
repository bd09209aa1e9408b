"""What the next round of a batch does, and the status of a batch. Pure."""

from collections.abc import Mapping
from types import MappingProxyType

from outlast.activities.batches.contracts import BatchOptions, BatchPlace, BatchState, Step, StopReason, item_limit
from outlast.workflows.batches.contracts import BatchInput, BatchStatus

ROUND_NAMES: Mapping[Step, str] = MappingProxyType({"run": "items", "drain": "the last items", "abort": "cancel items"})


def next_step(options: BatchOptions, state: BatchState) -> Step | None:
    """What the next round does; None when nothing is left to do."""
    if state.stop is None:
        return "run" if state.has_more or state.under_way else None
    if not state.under_way:
        return None
    cancels = state.stop is StopReason.CANCELLED or options.stop.under_way == "cancel"
    return "abort" if cancels else "drain"


def stopped_without_money(batch: BatchInput, state: BatchState) -> bool:
    """Whether nothing is under way, and the budget does not leave enough for another item."""
    options, place = batch.options, batch.place
    if options.budget_usd is None or not place.is_paid or state.stop is not None or state.under_way:
        return False
    return state.has_more and item_limit(options, state, own_usd=place.own_limit_usd) is None


def status_of(place: BatchPlace, state: BatchState) -> BatchStatus:
    """The outcome of the batch."""
    if state.stop is StopReason.CANCELLED:
        return BatchStatus.CANCELLED
    return BatchStatus.COMPLETED if state.counts.ended == place.items.count else BatchStatus.STOPPED
