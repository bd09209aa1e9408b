"""What an item may cost, and when a batch stops. Pure: workflow code uses it, too."""

from decimal import Decimal

from outlast.activities.batches.contracts import (
    SHARE_JUDGED_FROM,
    BatchOptions,
    BatchState,
    Counts,
    ItemOutcome,
    StopReason,
    StopRule,
)
from outlast.activities.bounds import rounded_usd

_EXACT = Decimal("0.000001")
Stop = tuple[StopReason, str]
"""Why a batch stops, and the reason in a sentence."""


def left_usd(options: BatchOptions, state: BatchState) -> Decimal | None:
    """What the budget leaves that is neither spent nor reserved; None without a budget."""
    if options.budget_usd is None:
        return None
    return options.budget_usd - state.cost_usd - state.reserved_usd


def item_limit(options: BatchOptions, state: BatchState, *, own_usd: Decimal | None) -> Decimal | None:
    """What the next items may cost each; None when what is left is not enough for one.

    It is the call's own limit. Without one, it is a part of what is left, so that twice the window fits in, or what the
    dearest item so far has cost if that is more. Only for batches with a budget.
    """
    left = left_usd(options, state)
    if left is None or left <= 0:
        return None
    even = rounded_usd(left / (2 * options.concurrency), _EXACT)
    wanted = own_usd if own_usd is not None else max(state.highest_usd, even, _EXACT)
    return wanted if wanted <= left else None


def stop_after(rule: StopRule, counts: Counts, outcome: ItemOutcome) -> Stop | None:
    """Whether the batch stops now that an item has ended with `outcome`; `counts` has it already."""
    category = outcome.error.category if outcome.error is not None and outcome.status == "failed" else None
    if category is not None and category in rule.categories:
        return StopReason.CATEGORY, f"an item failed with `{category}`, which would refuse others, too"
    if rule.failures is not None and counts.failed >= rule.failures:
        return StopReason.FAILURES, f"{counts.failed} items have failed"
    judged = counts.completed + counts.failed
    share = counts.failed / judged if judged else 0.0
    if rule.failure_share is not None and judged >= SHARE_JUDGED_FROM and share >= rule.failure_share:
        return StopReason.FAILURES, f"{share:.0%} of {judged} items have failed"
    if rule.completed is not None and counts.completed >= rule.completed:
        return StopReason.ENOUGH, f"{counts.completed} items are completed"
    if rule.rows is not None and counts.rows >= rule.rows:
        return StopReason.ENOUGH, f"the answers have {counts.rows} rows"
    return None
