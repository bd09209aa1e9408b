"""The arithmetic of one caller's ledger. Pure: it reads no clock."""

from collections.abc import Iterator
from datetime import datetime, timedelta
from decimal import Decimal

from outlast.activities.spending import contracts as spending

RECENT_ENTRIES = 5_000
"""Settled entries that are known again. Repetitions come soon: they are retries of activities."""
NEAR_CAP = Decimal("0.9")
"""The share of a cap from which on the caller is near it."""
REMEMBERED_RUNS = 20
"""Runs of an Actor whose costs are remembered."""
REMEMBERED_ACTORS = 200
RUNS_TO_JUDGE_BY = 3
"""With fewer runs, the next one may cost anything."""
HEADROOM = 5
"""A call without a budget reserves as often what the dearest of the remembered runs has cost."""
LEAST_USD = Decimal("0.05")
"""Less is never reserved because of earlier runs: many of them cost next to nothing."""
MAX_BOOKED = 1_000
"""Runs whose final usage is read later. Of a caller who runs more in that time, the oldest stay as they were booked."""


class Book:
    """Reservations, totals of the day and the month, and the settled entries that are not in the store yet."""

    def __init__(self, state: spending.LedgerState, now: datetime) -> None:
        """Continue from `state`."""
        today = spending.day_of(now)
        self.caller_id = state.caller_id
        self._check_after_seconds = state.check_after_seconds
        self._day = state.day or spending.PeriodTotal(start=today)
        self._month = state.month or spending.PeriodTotal(start=today.replace(day=1))
        self._recent = dict.fromkeys(state.recent)
        self._kept = state.kept
        self.open = dict(state.open)
        self._run_costs = dict(state.run_costs)
        self.booked = {run.spend.entry_id: run for run in state.booked}
        self.records = list(state.records)

    def reserve(self, request: spending.ReserveInput, now: datetime, *, by_history: bool = True) -> spending.Reserved:
        """Hold what is asked for, or a sensible part of what the caps leave; refuse what exceeds one of them.

        Without `by_history`, as in older versions, an amount that is not given is all that the caps leave.
        """
        self._turn_pages(now)
        held = self.open.get(request.spend.entry_id)
        if held is not None:
            return spending.Reserved(granted_usd=held.amount_usd, basis=held.basis)
        rests = list(self._rests(request))
        rest = min((one.left_usd for one in rests), default=None)
        granted, basis = self._amount(request, rest)
        if not by_history:
            granted, basis = (request.amount_usd if request.amount_usd is not None else rest), None
        refusal = next((one for one in rests if granted is None or granted > one.left_usd or not one.left_usd), None)
        if refusal is not None:
            return spending.Reserved(refusal=refusal.model_copy(update={"asked_usd": request.amount_usd}))
        if granted is not None and request.hold:
            self.open[request.spend.entry_id] = spending.OpenEntry(
                spend=request.spend, caller=request.caller, amount_usd=granted, basis=basis, since=now
            )
        return spending.Reserved(granted_usd=granted, basis=basis)

    def _amount(
        self, request: spending.ReserveInput, rest: Decimal | None
    ) -> tuple[Decimal | None, spending.Basis | None]:
        """Reserved amount: the call's own limit; without one, the least of what is known of the run's cost."""
        if request.amount_usd is not None:
            return request.amount_usd, "call"
        known: list[tuple[Decimal, spending.Basis]] = []
        if request.actor_usd is not None:
            known.append((request.actor_usd, "actor"))
        costs = self._run_costs.get(request.spend.actor or "", ())
        if request.spend.kind == "run" and len(costs) >= RUNS_TO_JUDGE_BY:
            known.append((max(HEADROOM * max(costs), LEAST_USD), "history"))
        if rest is not None:
            known.append((rest, "caps"))
        return min(known, default=(None, None))

    def near_caps(self, request: spending.ReserveInput) -> tuple[spending.Cap, ...]:
        """The caps of a request of which 90% or more is spent. What is only reserved does not count."""
        return tuple(rest.cap for rest in self._rests(request) if rest.spent_usd >= NEAR_CAP * rest.cap_usd)

    def settle(self, settlement: spending.Settlement, now: datetime) -> bool:
        """Book the cost of an entry; False when it was booked before."""
        self._turn_pages(now)
        entry_id = settlement.spend.entry_id
        self.open.pop(entry_id, None)
        if entry_id in self._recent:
            return False
        self._recent[entry_id] = None
        while len(self._recent) > RECENT_ENTRIES:
            del self._recent[next(iter(self._recent))]
        if settlement.spend.is_capped:
            self._day = _plus(self._day, settlement.cost_usd)
            self._month = _plus(self._month, settlement.cost_usd)
        if settlement.run_id is not None and settlement.spend.kind == "run":
            self._remember(settlement, settlement.run_id, now)
            self._remember_cost(settlement)
        if settlement.cost_usd:
            self.records.append(spending.UsageRecord(**dict(settlement), caller_id=self.caller_id, at=now))
        return True

    def correct(self, entry_id: str, cost_usd: Decimal, now: datetime) -> spending.Settlement | None:
        """Book the difference to what a run cost in the end, as a separate entry; None without a difference."""
        run = self.booked.pop(entry_id, None)
        if run is None or run.cost_usd == cost_usd:
            return None
        spend = run.spend.model_copy(update={"entry_id": f"{entry_id}:correction", "kind": "correction"})
        difference = spending.Settlement(spend=spend, cost_usd=cost_usd - run.cost_usd, run_id=run.run_id)
        return difference if self.settle(difference, now) else None

    def release(self, entry_id: str) -> None:
        """Give back what an entry holds."""
        self.open.pop(entry_id, None)

    def forget(self, records: int) -> None:
        """Drop the oldest records, which are in the store now."""
        del self.records[:records]
        self._kept += 1

    @property
    def bundle(self) -> int:
        """The number of the next bundle of records."""
        return self._kept

    def open_since(self, moment: datetime) -> tuple[spending.OpenEntry, ...]:
        """The reservations that are at least as old as `moment`."""
        return tuple(entry for entry in self.open.values() if entry.since <= moment)

    def booked_since(self, moment: datetime) -> tuple[spending.BookedRun, ...]:
        """The runs that were settled before `moment`, and whose final usage is still to be read."""
        return tuple(run for run in self.booked.values() if run.since <= moment)

    def give_up(self, moment: datetime) -> int:
        """Leave runs as they were booked that were settled before `moment`. Returns how many."""
        left = self.booked_since(moment)
        for run in left:
            del self.booked[run.spend.entry_id]
        return len(left)

    def overview(self, now: datetime) -> spending.LedgerOverview:
        """The totals that hold at `now`."""
        today = spending.day_of(now)
        month = today.replace(day=1)
        return spending.LedgerOverview(
            caller_id=self.caller_id,
            day=self._day if self._day.start == today else spending.PeriodTotal(start=today),
            month=self._month if self._month.start == month else spending.PeriodTotal(start=month),
            reserved_usd=self._reserved,
            reservations=len(self.open),
            records=tuple(self.records),
        )

    def state(self) -> spending.LedgerState:
        """State for the next run of the workflow."""
        return spending.LedgerState(
            caller_id=self.caller_id,
            check_after_seconds=self._check_after_seconds,
            day=self._day,
            month=self._month,
            open=self.open,
            booked=tuple(self.booked.values()),
            recent=tuple(self._recent),
            records=tuple(self.records),
            kept=self._kept,
            run_costs=self._run_costs,
        )

    def _remember(self, settlement: spending.Settlement, run_id: str, now: datetime) -> None:
        entry_id = settlement.spend.entry_id
        self.booked[entry_id] = spending.BookedRun(
            spend=settlement.spend, run_id=run_id, cost_usd=settlement.cost_usd, since=now
        )
        while len(self.booked) > MAX_BOOKED:
            del self.booked[next(iter(self.booked))]

    def _remember_cost(self, settlement: spending.Settlement) -> None:
        actor = settlement.spend.actor
        if actor is None:
            return
        before = self._run_costs.pop(actor, ())
        self._run_costs[actor] = (*before, settlement.cost_usd)[-REMEMBERED_RUNS:]
        while len(self._run_costs) > REMEMBERED_ACTORS:
            del self._run_costs[next(iter(self._run_costs))]

    @property
    def _reserved(self) -> Decimal:
        return sum((entry.amount_usd for entry in self.open.values()), Decimal(0))

    def _rests(self, request: spending.ReserveInput) -> Iterator[spending.CapRefusal]:
        """Amount that each cap leaves, in the form of the refusal that it may become."""
        caps, day, month = request.caps, self._day, self._month
        if caps.per_task_usd is not None:
            spent = request.task_spent_usd
            yield spending.CapRefusal(
                cap="task", cap_usd=spending.exact_usd(caps.per_task_usd), spent_usd=spent, reserved_usd=Decimal(0)
            )
        if caps.per_day_usd is not None:
            yield spending.CapRefusal(
                cap="day",
                cap_usd=spending.exact_usd(caps.per_day_usd),
                spent_usd=day.spent_usd,
                reserved_usd=self._reserved,
                resets_at=spending.midnight(day.start + timedelta(days=1)),
            )
        if caps.per_month_usd is not None:
            yield spending.CapRefusal(
                cap="month",
                cap_usd=spending.exact_usd(caps.per_month_usd),
                spent_usd=month.spent_usd,
                reserved_usd=self._reserved,
                resets_at=spending.midnight(spending.next_month(month.start)),
            )

    def _turn_pages(self, now: datetime) -> None:
        """Begin a new day or month. A clock that goes back begins none: the total stays."""
        today = spending.day_of(now)
        if today > self._day.start:
            self._day = spending.PeriodTotal(start=today)
        if today.replace(day=1) > self._month.start:
            self._month = spending.PeriodTotal(start=today.replace(day=1))


def _plus(total: spending.PeriodTotal, amount: Decimal) -> spending.PeriodTotal:
    """A correction of yesterday's run may be less than nothing; a total is not."""
    return total.model_copy(update={"spent_usd": max(total.spent_usd + amount, Decimal(0))})
