"""Runs in their caller's ledger: reserved before the start, settled at the end, released without a run. Counts runs."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal

from temporalio import activity

from outlast.activities.contracts import Caller
from outlast.activities.failures.classify import ToolFailure
from outlast.activities.runs.contracts import ResurrectRunInput, RunState, StartRunInput
from outlast.activities.spending.contracts import Basis, Reserved, ReserveInput, Settlement, Spend, exact_usd
from outlast.activities.spending.ledger import Ledgers, refused_by_cap


@dataclass(frozen=True)
class RunLimit:
    """The most that a run may cost, in US dollars, and the reason. None without a limit."""

    usd: Decimal | None
    basis: Basis | None

    def on(self, run: RunState) -> RunState:
        """`run` with this limit."""
        return run.model_copy(update={"limit_usd": self.usd, "limit_basis": self.basis})


async def reserved_limit(
    ledgers: Ledgers, request: StartRunInput, own_usd_of: Callable[[], Awaitable[Decimal | None]]
) -> RunLimit:
    """The limit of a run: its own, or what the caller's ledger has reserved for it. `own_usd_of` looks up the most that
    the Actor costs by its own settings; it is only called for a call without a budget. Raises `ToolFailure` when the
    caps do not leave as much. Without caps, or with a payment that came with the call, nothing is reserved.
    """
    own = request.spec.budget.max_total_charge_usd
    if request.spend is None or request.caps is None or not request.spend.is_capped:
        return RunLimit(own, "call" if own is not None else None)
    wanted = ReserveInput(
        spend=request.spend,
        caller=request.caller,
        caps=request.caps,
        amount_usd=own,
        actor_usd=await own_usd_of() if own is None else None,
        task_spent_usd=request.task_spent_usd,
    )
    answer = await _reserved(ledgers, wanted)
    return RunLimit(answer.granted_usd, answer.basis)


async def reserved_further_limit(ledgers: Ledgers, request: ResurrectRunInput) -> Decimal | None:
    """Return the limit of a run that was booked already and is resurrected; see `reserved_limit`."""
    own, spend = request.budget.max_total_charge_usd, request.spend
    if spend is None or spend.earlier is None or request.caps is None or not spend.is_capped:
        return own
    earlier = spend.earlier.cost_usd
    amount = None if own is None else max(own - earlier, Decimal(0))
    caller, caps = request.caller, request.caps
    wanted = ReserveInput(spend=spend, caller=caller, caps=caps, amount_usd=amount, task_spent_usd=earlier)
    granted = (await _reserved(ledgers, wanted)).granted_usd
    return None if granted is None else granted + earlier


async def _reserved(ledgers: Ledgers, wanted: ReserveInput) -> Reserved:
    answer = await ledgers.reserve(wanted)
    if answer.refusal is not None:
        raise ToolFailure(refused_by_cap(answer.refusal))
    return answer


async def settle_run(ledgers: Ledgers, caller: Caller, spend: Spend | None, run: RunState) -> None:
    """Book what a run has cost that has ended."""
    if spend is not None and run.is_final:
        cost = spend.share_of(exact_usd(run.usage_total_usd or 0.0))
        await ledgers.settle(caller, Settlement(spend=spend, cost_usd=cost, run_id=run.run_id))


RunEvent = Literal["started", "adopted", "resurrected", "taken_over", "handed_over", "abort_requested", "orphaned"]


def count_run_event(event: RunEvent) -> None:
    """Count a run that was started, one that was adopted after a lost start, one that was resurrected, one that another
    attempt follows on after the last one was lost, failed or handed it over, one that a stopping worker hands over, a
    request to abort one, or one that runs although its task has ended.
    """
    meter = activity.metric_meter()
    counter = meter.create_counter(
        "outlast_actor_runs",
        "Actor runs started, adopted after a lost start, resurrected, taken or handed over, aborted, or orphaned.",
    )
    counter.add(1, {"event": event})
