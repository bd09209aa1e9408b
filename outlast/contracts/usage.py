"""The spending of callers, at every entry point."""

from datetime import date, datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from outlast.contracts.base import Open, Response, absent

Grouping = Literal["caller", "tool", "actor", "model", "session", "day", "payer"]
ALL_CALLERS = "*"

Name = Annotated[str, Field(min_length=1, max_length=200)]


class UsageQuery(BaseModel):
    """Selection and grouping of usage entries. Days are in UTC."""

    model_config = ConfigDict(extra="forbid", populate_by_name=True)

    first_day: date | None = Field(
        default=None, alias="from", description="First day, such as `2026-11-01`; by default the first of this month."
    )
    last_day: date | None = Field(default=None, alias="to", description="Last day; by default today.")
    by: tuple[Grouping, ...] = Field(
        default=("day",),
        description="What the rows are grouped by: `caller`, `tool`, `actor`, `model`, `session`, "
        "`day`, `payer`; several are given as `by=day&by=tool`.",
    )
    tool: Name | None = Field(default=None, description="Only this tool.")
    actor: Name | None = Field(default=None, description="Only this Actor, as `user/name`.")
    session_id: Name | None = Field(default=None, description="Only this session.")
    caller: Name | None = Field(
        default=None, description="Another caller, or `*` for all; requires the permission to see them."
    )
    format: Literal["json", "csv"] | None = Field(default=None, description="`csv`, as with `Accept: text/csv`.")
    csv_safe: bool = Field(
        default=True,
        description="Of CSV: put an apostrophe before text that a spreadsheet would compute, since it begins with "
        "`=`, `+`, `-` or `@`.",
    )


class UsageRow(Response):
    """Cost of one group. Of the groupings, those that were asked for are set; None is "none"."""

    caller: str | None = None
    tool: str | None = None
    actor: str | None = None
    model: str | None = Field(default=None, description="`provider/model`, for calls of models.")
    session: str | None = None
    day: date | None = None
    payer: Open[Literal["operator", "caller", "payment"]] | None = Field(
        default=None,
        description="Who paid: the operator's account, the caller's own Apify account, or a payment that came with the "
        "call (Skyfire).",
    )
    runs: Annotated[int, absent(0)] = Field(description="Runs that have ended.")
    model_calls: Annotated[int, absent(0)] = Field(description="Calls of models with a price.")
    cost_usd: Annotated[float, absent(0.0)]


class CapUsage(Response):
    """Current use of a spending limit."""

    cap: Open[Literal["day", "month"]]
    cap_usd: float | None = Field(default=None, description="Null when there is no such cap.")
    spent_usd: Annotated[float, absent(0.0)] = Field(description="Cost, without payments that came with calls.")
    reserved_usd: Annotated[float, absent(0.0)] = Field(description="Money reserved by runs that have not ended.")
    left_usd: float | None = None
    resets_at: datetime


class UsageReport(Response):
    """Spending in a range of days."""

    first_day: date
    last_day: date
    total_usd: float
    rows: Annotated[tuple[UsageRow, ...], absent(())] = Field(
        description="The most expensive first; by day when only days are asked for."
    )
    caps: tuple[CapUsage, ...] = Field(
        default=(), description="The caps of the one caller that the report is about, as they are now."
    )
    damaged: int = Field(
        default=0, description="Stored records that cannot be read, at the least: their cost is in none of the sums."
    )
