"""When a run may be resurrected. Pure: workflows, activities and the API ask the same rules."""

from decimal import Decimal

from outlast.activities.runs.contracts import Budget, Production, Resurrection, RunState
from outlast.activities.spending.contracts import exact_usd


def may_be_resurrected(run: RunState, allowed: Resurrection | None, budget: Budget) -> bool:
    """Whether a call may have its ended run go on: it is allowed, the run was cut short, and money is left."""
    if allowed is None or run.resurrections >= allowed.max_times:
        return False
    return is_cut_short(run) and has_money_left(run, budget)


def is_cut_short(run: RunState) -> bool:
    """Whether the run ended neither by itself nor because somebody stopped it: its time was over, or it died with the
    platform. An Actor that fails, also for want of memory, leaves an exit code; one whose server was lost leaves none.
    """
    if run.until_met is not None:
        return False  # It had produced enough, however it ended after that.
    return run.status == "TIMED-OUT" or (run.status == "FAILED" and run.exit_code is None)


def has_money_left(run: RunState, budget: Budget) -> bool:
    """Whether the run has cost less than it may. What its earlier lives have cost counts."""
    limit = budget.max_total_charge_usd
    return limit is None or cost_of(run) < limit


def is_another_life(now: RunState, ended: RunState) -> bool:
    """Whether the run was resurrected after it had ended so. A reply of a replica may be older than that end."""
    if now.resurrections != ended.resurrections:
        return now.resurrections > ended.resurrections
    return now.is_final and now.finished_at != ended.finished_at


def why_unproductive(now: Production, before: Production, ended: RunState) -> str | None:
    """Why the run is not resurrected in the light of what it has produced; None when it may be."""
    if now.is_more_than(before):
        return None
    since = "since it was resurrected" if ended.resurrections else "in all its time"
    return f"it produced nothing {since} that it could go on from"


def cost_of(run: RunState) -> Decimal:
    """What the run has cost so far in all its lives, in US dollars."""
    return exact_usd(run.usage_total_usd or 0.0)
