"""When a schedule is paused by the outcome of its firing, and what its note says then. Pure."""

from decimal import Decimal

from outlast.activities.failures.contracts import ErrorCategory
from outlast.workflows.schedules.contracts import FiringInput, FiringOutcome, FiringStatus

_FAILED = frozenset({FiringStatus.FAILED, FiringStatus.REFUSED})
_MAX_MESSAGE_CHARS = 300


def used_up(order: FiringInput, spent_usd: Decimal) -> str:
    """Says that the schedule's budget is spent."""
    return (
        f"The schedule's budget of {_usd(order.spending.budget_usd)} US dollars is used up: its firings have cost "
        f"{_usd(spent_usd)}. Raise `budget_usd` and resume the schedule."
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


def _usd(amount: Decimal | None) -> str:
    """At least two digits, and as many as there are."""
    if amount is None:
        return "any"
    cents = amount.quantize(Decimal("0.01"))
    return f"{cents if cents == amount else amount.normalize():f}"
