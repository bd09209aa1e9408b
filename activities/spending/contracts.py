"""Spending caps, and the entries of a spend ledger. Money is exact: `Decimal`, in US dollars."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Literal

from pydantic import Field

from outlast.activities.bounds import UsdFloat, rounded_usd
from outlast.activities.contracts import Caller, Contract

LEDGER_WORKFLOW = "SpendLedgerWorkflow"
RESERVE_UPDATE = "reserve"
SETTLE_SIGNAL = "settle"
RELEASE_SIGNAL = "release"
CLOSE_SIGNAL = "close"
OVERVIEW_QUERY = "overview"
LEDGER_PREFIX = "spending:"
CHECK_AFTER_SECONDS = 900.0
_EXACT = Decimal("0.000000001")
"""Platform and prices have nine digits at most; more are noise of binary fractions."""

Cap = Literal["task", "day", "month"]
Basis = Literal["call", "actor", "history", "caps"]
"""The reason for the amount that is reserved: the call's own limit, the most that the Actor may cost, what the caller's
earlier runs of the Actor have cost, or what the caps leave."""
Payer = Literal["operator", "caller", "payment"]


def exact_usd(amount: float | Decimal) -> Decimal:
    """Return an amount as the platform or a price list gives it, without the noise of binary fractions."""
    return rounded_usd(amount, _EXACT).normalize() + 0


def ledger_id(caller_id: str) -> str:
    """ID of the workflow that keeps a caller's ledger."""
    return f"{LEDGER_PREFIX}{caller_id}"


class SpendingCaps(Contract):
    """Caps on a caller's spending, in US dollars; None for no cap. Days and months are those of UTC."""

    per_task_usd: UsdFloat | None = Field(default=None, description="Most that one task may cost.")
    per_day_usd: UsdFloat | None = Field(default=None, description="Maximum spending of the caller in a day.")
    per_month_usd: UsdFloat | None = Field(default=None, description="Maximum spending of the caller in a month.")

    @property
    def are_set(self) -> bool:
        """True if there is any limit."""
        return (self.per_task_usd, self.per_day_usd, self.per_month_usd) != (None, None, None)


class EarlierLife(Contract):
    """A run that is resurrected for another task: what it had cost before is booked already."""

    run_id: str
    entry_id: str = Field(description="Under which it was booked.")
    cost_usd: Decimal


class Spend(Contract):
    """Purpose of an amount, and who pays."""

    entry_id: str = Field(description="The same for every attempt at the same purchase; it is booked once.")
    kind: Literal["run", "model", "correction"] = Field(
        default="run",
        description="`correction`: difference between the platform's charge for a run and the booked amount.",
    )
    payer: Payer = Field(
        default="operator",
        description="`operator`: the operator's account; `caller`: the caller's own Apify account; `payment`: a "
        "payment that came with the call, to which no limit applies.",
    )
    tool: str | None = None
    actor: str | None = Field(default=None, description="The Actor as the call named it.")
    model: str | None = Field(default=None, description="`provider/model`.")
    session_id: str | None = None
    task_id: str | None = Field(default=None, description="The task, or the turn.")

    earlier: EarlierLife | None = Field(default=None, description="Set for a run that an earlier task had started.")

    @property
    def is_capped(self) -> bool:
        """True if it counts against limits."""
        return self.payer != "payment"

    def share_of(self, run_usd: Decimal) -> Decimal:
        """Return the part of a run's cost that is booked here."""
        return run_usd if self.earlier is None else max(run_usd - self.earlier.cost_usd, Decimal(0))


class ReserveInput(Contract):
    """Input of `reserve`: hold an amount until the entry is settled or released."""

    spend: Spend
    caller: Caller = Field(description="With its encrypted token, to read the run from the platform later.")
    caps: SpendingCaps
    amount_usd: Decimal | None = Field(default=None, description="Maximum cost; None: what the caps leave.")
    task_spent_usd: Decimal = Field(default=Decimal(0), description="Cost of earlier runs of the task.")
    actor_usd: Decimal | None = Field(
        default=None, description="Maximum cost of a run by the Actor's own settings, if known."
    )
    hold: bool = Field(default=True, description="False: only check whether the amount is left.")


class CapRefusal(Contract):
    """The limit that an entry would exceed, and the rest of it."""

    cap: Cap
    cap_usd: Decimal
    spent_usd: Decimal
    reserved_usd: Decimal
    asked_usd: Decimal | None = None
    resets_at: datetime | None = Field(default=None, description="End of the cap's day or month.")

    @property
    def left_usd(self) -> Decimal:
        """The amount that is neither spent nor reserved."""
        return max(self.cap_usd - self.spent_usd - self.reserved_usd, Decimal(0))

    @property
    def may_pass(self) -> bool:
        """Return True if enough is left after the runs that have reserved it have ended, unless they spend it."""
        unspent = self.cap_usd - self.spent_usd
        return bool(self.reserved_usd) and unspent > 0 and unspent >= (self.asked_usd or Decimal(0))


class Reserved(Contract):
    """Answer of `reserve`: the amount that is held, or why nothing is."""

    granted_usd: Decimal | None = Field(default=None, description="None without a cap that limits it.")
    basis: Basis | None = Field(default=None, description="Why it is as much; None from older versions.")
    refusal: CapRefusal | None = None


class Settlement(Contract):
    """An entry with what it has cost."""

    spend: Spend
    cost_usd: Decimal
    run_id: str | None = None


class ClosedEntry(Contract):
    """Argument of the signal `close`: a run that was booked is resurrected, and books what follows elsewhere."""

    entry_id: str
    cost_usd: Decimal = Field(description="Its cost at that time.")


class Settlements(Contract):
    """Argument of the signal `settle`."""

    entries: tuple[Settlement, ...]
    caller: Caller | None = Field(default=None, description="With its encrypted token, to read the runs later.")


class UsageRecord(Settlement):
    """A settled entry of a caller's ledger."""

    caller_id: str
    at: datetime = Field(description="Time of settlement. It counts for that day and month (UTC).")


class OpenEntry(Contract):
    """A reservation."""

    spend: Spend
    caller: Caller
    amount_usd: Decimal
    basis: Basis | None = None
    since: datetime


class BookedRun(Contract):
    """A run that was settled when it had ended, and with how much. The platform may finalise its usage later."""

    spend: Spend
    run_id: str
    cost_usd: Decimal
    since: datetime


class PeriodTotal(Contract):
    """Spending in the period that begins at `start`."""

    start: date
    spent_usd: Decimal = Decimal(0)


class LedgerState(Contract):
    """The ledger of one caller, as it continues."""

    caller_id: str
    check_after_seconds: float = Field(
        default=CHECK_AFTER_SECONDS,
        description="Age at which a reservation's task, and an ended run's usage, is checked.",
    )
    day: PeriodTotal | None = None
    month: PeriodTotal | None = None
    open: dict[str, OpenEntry] = Field(default={}, description="Reservations by entry.")
    check_at: datetime | None = Field(default=None, description="Time of the next check of entries that are not final.")
    caller: Caller | None = Field(
        default=None, description="Caller of the latest settlement, with its encrypted token."
    )
    booked: tuple[BookedRun, ...] = Field(default=(), description="Runs whose final usage is still to be read.")
    recent: tuple[str, ...] = Field(default=(), description="Settled entries, the latest last.")
    records: tuple[UsageRecord, ...] = Field(default=(), description="Settled entries that are not in the store yet.")
    kept: int = Field(default=0, description="Number of times that records were stored.")
    run_costs: dict[str, tuple[Decimal, ...]] = Field(
        default={}, description="Cost of the latest runs by Actor, the latest last."
    )


class LedgerOverview(Contract):
    """The spending of a caller, and the entries that its ledger holds besides the records in the store."""

    caller_id: str
    day: PeriodTotal
    month: PeriodTotal
    reserved_usd: Decimal
    reservations: int
    records: tuple[UsageRecord, ...] = ()


class KeepUsageInput(Contract):
    """Input of `keep_usage`: records for the store."""

    caller_id: str
    number: int = Field(description="Number of the bundle; unique.")
    records: tuple[UsageRecord, ...]


class FindChargesInput(Contract):
    """Input of `find_charges`: reservations whose tasks may have ended without settling them."""

    entries: tuple[OpenEntry, ...]


class FoundCharges(Contract):
    """Result of `find_charges`. Entries in neither list are still open."""

    settled: tuple[Settlement, ...] = ()
    released: tuple[str, ...] = Field(default=(), description="Entries whose run was never started, or was deleted.")


class ReadChargesInput(Contract):
    """Input of `read_charges`: runs that ended some time ago."""

    caller: Caller
    runs: tuple[BookedRun, ...]


class FinalCharges(Contract):
    """Result of `read_charges`."""

    changed: dict[str, Decimal] = Field(
        default={}, description="Final cost by entry, for runs that were booked with another cost."
    )


def day_of(moment: datetime) -> date:
    """Return the day of `moment`, in UTC."""
    return moment.astimezone(UTC).date()


def midnight(day: date) -> datetime:
    """Return the beginning of `day` in UTC."""
    return datetime.combine(day, time(), UTC)


def next_month(day: date) -> date:
    """Return the first day of the month after that of `day`."""
    return (day.replace(day=1) + timedelta(days=32)).replace(day=1)
