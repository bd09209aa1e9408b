"""When a schedule is paused by the outcome of its firing, and what its note says then. Pure."""

from decimal import Decimal

from outlast.activities.bounds import usd_text
from outlast.activities.failures.contracts import ErrorCategory
from outlast.workflows.schedules.contracts import FiringInput, FiringOutcome, FiringStatus

_FAILED = frozenset({FiringStatus.FAILED, FiringStatus.REFUSED})
_MAX_MESSAGE_CHARS = 300


def used_up(order: FiringInput, spent_usd: Decimal) -> str:
    """Says that the schedule's budget is spent."""
    budget = usd_text(order.spending.budget_usd or Decimal(0))
    return (
        f"The schedule's budget of {budget} US dollars is used up: its firings have cost "
        f"{usd_text(spent_usd)}. Raise `budget_usd` and resume the schedule."
    )


def reason_to_pause(order: FiringInput, outcome: FiringOutcome) -> str | None:
    """Why the schedule may not go on after this firing; None when it may."""
    budget = order.spending.budget_usd
    if budget is not None and outcome.spent_usd >= budget:
        return used_up(order, outcome.spent_usd)
    error = outcome.error
    if outcome.status not in _FAILED or error is None or error.category not in order.spending.pause_on:
        return None
    if error.category is ErrorCategory.PAYMENT and error.retryable:
        return None  # Other runs have reserved what is left: it is free again before long.
    return f"Paused after a failure ({error.category.value}): {error.message[:_MAX_MESSAGE_CHARS]}"
