"""Refusals of a cap, in words: what is left of it, and when there is more."""

from datetime import UTC, datetime

from outlast.activities.bounds import usd_text
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.spending.contracts import CapRefusal

_CALLED = {"task": "cap per task", "day": "daily cap", "month": "monthly cap"}
_SETTINGS = {"task": "per_task_usd", "day": "per_day_usd", "month": "per_month_usd"}


def rest_of(refusal: CapRefusal) -> str:
    """How much of the cap is left, and why no more."""
    held = f", {usd_text(refusal.reserved_usd)} reserved by runs that have not ended" if refusal.reserved_usd else ""
    cap, left = usd_text(refusal.cap_usd), usd_text(refusal.left_usd)
    return (
        f"of the {_CALLED[refusal.cap]} of {cap} US dollars {left} are left ({usd_text(refusal.spent_usd)} spent{held})"
    )


def resets(refusal: CapRefusal) -> str:
    """When the cap resets, as a sentence; empty for a cap that does not."""
    return f" The cap resets at {_time(refusal.resets_at)}." if refusal.resets_at else ""


def refused_by_cap(refusal: CapRefusal) -> ErrorEnvelope:
    """The error of a call that a cap refuses. It is retryable where the end of other runs may leave enough."""
    asked = "cost money" if refusal.asked_usd is None else f"cost up to {usd_text(refusal.asked_usd)} US dollars"
    advice = ["Give the call a budget within what is left (`options.budget.max_total_charge_usd`)"]
    if refusal.reserved_usd:
        advice.append("wait until running calls have ended")
    envelope = ErrorEnvelope.transient if refusal.may_pass else ErrorEnvelope.permanent
    return envelope(
        ErrorCategory.PAYMENT,
        "",
        f"This may {asked}, and {rest_of(refusal)}. Nothing was started.{resets(refusal)}",
        hint=f"{', '.join(advice)}, or ask the operator to raise `spending.{_SETTINGS[refusal.cap]}`.",
    )


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
