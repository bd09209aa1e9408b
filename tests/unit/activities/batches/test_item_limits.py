"""The limit of an item's cost, the stop rules of a batch, and its share of concurrent items."""

from decimal import Decimal
from typing import Any

import pytest

from outlast.activities.batches.activities import part_of_share
from outlast.activities.batches.contracts import (
    BatchOptions,
    BatchState,
    Counts,
    ItemOutcome,
    Slot,
    StopReason,
    StopRule,
    item_limit,
    stop_after,
)
from outlast.activities.contracts import ErrorCategory, ErrorEnvelope

USD = Decimal


def state(spent: str = "0", highest: str = "0", *reserved: str) -> BatchState:
    slots = tuple(Slot(position=at, index=at, attempt=1, reserved_usd=USD(usd)) for at, usd in enumerate(reserved))
    return BatchState(plan_end=10, cost_usd=USD(spent), highest_usd=USD(highest), under_way=slots)


@pytest.mark.parametrize(
    ("before", "own", "limit"),
    [
        (state(), None, "0.1"),  # Twice the window fits into the budget.
        (state("1"), None, "0.05"),
        (state("1", "0.4"), None, "0.4"),  # What an item has cost, another may cost.
        (state("1.7", "0.4"), None, None),
        (state(), "0.5", "0.5"),
        (state("1", "0", "0.3", "0.3"), "0.5", None),  # What items under way may cost is not there.
        (state("1", "0", "0.2", "0.3"), "0.5", "0.5"),
        (state("2"), None, None),
        (state("3"), None, None),  # The platform let a run exceed its limit.
    ],
)
def test_the_limit_of_an_item_keeps_the_budget(before: BatchState, own: str | None, limit: str | None) -> None:
    options = BatchOptions(budget_usd=USD(2), concurrency=10)
    found = item_limit(options, before, own_usd=USD(own) if own else None)
    assert found == (USD(limit) if limit else None)


def test_without_a_budget_there_is_no_limit() -> None:
    assert item_limit(BatchOptions(), state("5"), own_usd=None) is None


def outcome(category: ErrorCategory | None = None) -> ItemOutcome:
    error = ErrorEnvelope.permanent(category, "tool", "It fails.") if category else None
    return ItemOutcome(status="failed" if error else "completed", error=error)


@pytest.mark.parametrize(
    ("rule", "counts", "ended", "reason"),
    [
        ({}, {"failed": 500}, outcome(ErrorCategory.NOT_FOUND), None),
        ({}, {"failed": 1}, outcome(ErrorCategory.PAYMENT), StopReason.CATEGORY),
        ({"categories": ()}, {"failed": 1}, outcome(ErrorCategory.PAYMENT), None),
        ({"failures": 3}, {"failed": 2}, outcome(ErrorCategory.UNKNOWN), None),
        ({"failures": 3}, {"failed": 3}, outcome(ErrorCategory.UNKNOWN), StopReason.FAILURES),
        ({"failure_share": 0.5}, {"failed": 19}, outcome(ErrorCategory.UNKNOWN), None),
        ({"failure_share": 0.5}, {"failed": 20}, outcome(ErrorCategory.UNKNOWN), StopReason.FAILURES),
        ({"failure_share": 0.5}, {"failed": 20, "completed": 30}, outcome(), None),
        ({"completed": 2}, {"completed": 2}, outcome(), StopReason.ENOUGH),
        ({"rows": 9}, {"completed": 1, "rows": 12}, outcome(), StopReason.ENOUGH),
    ],
)
def test_a_batch_stops_as_its_rule_says(
    rule: dict[str, Any], counts: dict[str, int], ended: ItemOutcome, reason: StopReason | None
) -> None:
    found = stop_after(StopRule(**rule), Counts(**counts), ended)
    assert (found[0] if found else None) == reason


@pytest.mark.parametrize(
    ("share", "queued", "batches", "part"),
    [
        (100, False, 1, 75),
        (100, True, 1, 25),
        (100, False, 3, 25),
        (100, True, 30, 1),
        (1, False, 1, 1),
        (4, True, 0, 1),
    ],
)
def test_batches_leave_a_part_of_the_share_and_divide_the_rest(
    share: int, queued: bool, batches: int, part: int
) -> None:
    assert part_of_share(share, queued=queued, batches=batches) == part
