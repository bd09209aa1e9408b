"""What a run means to its caller's ledger: reserved before its start, settled at its end, released without one."""

from datetime import UTC, datetime
from decimal import Decimal

from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.failures.contracts import ErrorCategory, ErrorEnvelope
from outlast.activities.runs.contracts import RunState, StartRunInput
from outlast.activities.spending.contracts import CapRefusal, ReserveInput, Settlement, Spend, exact_usd
from outlast.activities.spending.ledger import Ledgers

_CALLED = {"task": "cap per task", "day": "daily cap", "month": "monthly cap"}
_SETTINGS = {"task": "per_task_usd", "day": "per_day_usd", "month": "per_month_usd"}


async def reserved_limit(ledgers: Ledgers, request: StartRunInput) -> Decimal | None:
    """What the run may cost at most: its own limit, else the rest of the caps; None without either.

    Raises `ToolFailure` when the caps do not leave as much. Without caps, or with a payment that came with the call,
    nothing is reserved.
    """
    own = request.spec.budget.max_total_charge_usd
    if request.spend is None or request.caps is None or not request.spend.is_capped:
        return own
    answer = await ledgers.reserve(
        ReserveInput(
            spend=request.spend,
            caller=request.caller,
            caps=request.caps,
            amount_usd=own,
            task_spent_usd=request.task_spent_usd,
        )
    )
    if answer.refusal is not None:
        raise ToolFailure(refused_by_cap(answer.refusal))
    return answer.granted_usd


async def settle_run(ledgers: Ledgers, caller: Caller, spend: Spend | None, run: RunState) -> None:
    """Book what a run has cost that has ended."""
    if spend is not None and run.is_final:
        cost = exact_usd(run.usage_total_usd or 0.0)
        await ledgers.settle(caller, Settlement(spend=spend, cost_usd=cost, run_id=run.run_id))


def refused_by_cap(refusal: CapRefusal) -> ErrorEnvelope:
    """The error of a call that a cap refuses: what is left, and when there is more."""
    asked = "cost money" if refusal.asked_usd is None else f"cost up to {_usd(refusal.asked_usd)} US dollars"
    held = f", {_usd(refusal.reserved_usd)} reserved by runs that have not ended" if refusal.reserved_usd else ""
    resets = f" The cap resets at {_time(refusal.resets_at)}." if refusal.resets_at else ""
    advice = ["Give the call a budget within what is left (`options.budget.max_total_charge_usd`)"]
    if refusal.reserved_usd:
        advice.append("wait until running calls have ended")
    return ErrorEnvelope.permanent(
        ErrorCategory.PAYMENT,
        "",
        f"This may {asked}, and of the {_CALLED[refusal.cap]} of {_usd(refusal.cap_usd)} US dollars "
        f"{_usd(refusal.left_usd)} are left ({_usd(refusal.spent_usd)} spent{held}). Nothing was started.{resets}",
        hint=f"{', '.join(advice)}, or ask the operator to raise `spending.{_SETTINGS[refusal.cap]}`.",
    )


def _usd(amount: Decimal) -> str:
    """At least two digits, and as many as there are."""
    cents = amount.quantize(Decimal("0.01"))
    return f"{cents if cents == amount else amount.normalize():f}"


def _time(moment: datetime) -> str:
    return moment.astimezone(UTC).strftime("%Y-%m-%d %H:%M UTC")
