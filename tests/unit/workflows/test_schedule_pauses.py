"""When a firing pauses its schedule, and what its note says then."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from outlast.activities.contracts import Caller, ErrorCategory, ErrorEnvelope
from outlast.activities.schedules.contracts import Due
from outlast.workflows.schedules.contracts import FiringInput, FiringOutcome, FiringStatus, Spending, Timing
from outlast.workflows.schedules.firing import reason_to_pause

USD = Decimal
PAYMENT, NETWORK = ErrorCategory.PAYMENT, ErrorCategory.NETWORK


def order(budget_usd: str | None = None, **spending: object) -> FiringInput:
    fields = {"budget_usd": budget_usd, **spending}
    return FiringInput(
        schedule_id="nightly",
        temporal_id="t",
        caller=Caller(id="local"),
        due=Due(call={"tool": "double"}),
        tool="double",
        timing=Timing(),
        spending=Spending.model_validate(fields),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
        fingerprint="",
    )


def outcome(
    status: FiringStatus, category: ErrorCategory | None = None, *, retryable: bool = False, spent: str = "0"
) -> FiringOutcome:
    make = ErrorEnvelope.transient if retryable else ErrorEnvelope.permanent
    error = make(category, "double", "It failed.") if category is not None else None
    return FiringOutcome(status=status, error=error, spent_usd=USD(spent))


@pytest.mark.parametrize(
    ("budget", "spent", "pauses"),
    [("1", "0.999999", False), ("1", "1", True), ("1", "1.2", True), (None, "1000", False)],
)
def test_a_schedule_is_paused_as_soon_as_its_budget_is_spent_to_the_cent(
    budget: str | None, spent: str, *, pauses: bool
) -> None:
    reason = reason_to_pause(order(budget), outcome(FiringStatus.COMPLETED, spent=spent))
    assert (reason is not None) == pauses
    if reason is not None:
        cost = {"1": "1.00", "1.2": "1.20"}[spent]
        assert reason.startswith(
            f"The schedule's budget of 1.00 US dollars is used up: its firings have cost {cost}. Raise"
        )
        assert "Raise `budget_usd` and resume" in reason


@pytest.mark.parametrize(
    ("ended", "pauses"),
    [
        (outcome(FiringStatus.FAILED, PAYMENT), True),
        (outcome(FiringStatus.REFUSED, PAYMENT), True),
        (outcome(FiringStatus.REFUSED, ErrorCategory.AUTHENTICATION), True),
        (outcome(FiringStatus.REFUSED, ErrorCategory.PERMISSION), True),
        (outcome(FiringStatus.FAILED, NETWORK, retryable=True), False),
        (outcome(FiringStatus.FAILED, ErrorCategory.VALIDATION), False),
        (outcome(FiringStatus.CANCELLED, PAYMENT), False),
        (outcome(FiringStatus.MISSED, PAYMENT), False),
        (outcome(FiringStatus.COMPLETED), False),
        # Other runs have reserved what is left of the caller's spending limit: it is free again before long.
        (outcome(FiringStatus.FAILED, PAYMENT, retryable=True), False),
    ],
)
def test_failures_that_the_next_firing_would_have_too_pause_a_schedule(ended: FiringOutcome, *, pauses: bool) -> None:
    assert (reason_to_pause(order(), ended) is not None) == pauses


def test_the_caller_decides_which_failures_pause_a_schedule() -> None:
    chosen = order(pause_on=("network",))
    reason = reason_to_pause(chosen, outcome(FiringStatus.FAILED, NETWORK, retryable=True))
    assert reason == "Paused after a failure (network): It failed."
    assert reason_to_pause(chosen, outcome(FiringStatus.FAILED, PAYMENT)) is None
    assert reason_to_pause(order(pause_on=()), outcome(FiringStatus.FAILED, PAYMENT)) is None


@pytest.mark.parametrize("status", [*FiringStatus])
def test_a_spent_budget_pauses_a_schedule_whatever_failures_do(status: FiringStatus) -> None:
    failed = outcome(status, NETWORK, spent="2")
    assert "is used up" in (reason_to_pause(order("2", pause_on=()), failed) or "")


def test_of_a_long_failure_the_note_has_the_beginning() -> None:
    error = ErrorEnvelope.permanent(PAYMENT, "double", "x" * 5_000)
    reason = reason_to_pause(order(), FiringOutcome(status=FiringStatus.FAILED, error=error))
    assert reason == f"Paused after a failure (payment): {'x' * 300}"
