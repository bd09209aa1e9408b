"""Spending, as the server reports it."""

from datetime import date, datetime

from outlast.client.contracts.base import Response


class UsageRow(Response):
    """Cost of one group. Of the groupings, those that were asked for are set."""

    caller: str | None = None
    tool: str | None = None
    actor: str | None = None
    model: str | None = None
    session: str | None = None
    day: date | None = None
    payer: str | None = None
    """`operator`, `caller` (with an Apify token of its own) or `payment` (it came with the call)."""
    runs: int = 0
    model_calls: int = 0
    cost_usd: float = 0.0


class CapUsage(Response):
    """How much of a cap is used now."""

    cap: str
    """`day` or `month`, in UTC."""
    cap_usd: float | None = None
    spent_usd: float = 0.0
    reserved_usd: float = 0.0
    left_usd: float | None = None
    resets_at: datetime | None = None


class UsageReport(Response):
    """Spending in a range of days, in US dollars."""

    first_day: date
    last_day: date
    total_usd: float
    rows: tuple[UsageRow, ...] = ()
    damaged: int = 0
    """Stored records that cannot be read, at the least: their cost is in none of the sums."""
    caps: tuple[CapUsage, ...] = ()
