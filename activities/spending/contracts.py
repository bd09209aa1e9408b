"""Spending caps."""

from pydantic import Field

from outlast.activities.contracts import Contract


class SpendingCaps(Contract):
    """What a caller may spend, in US dollars; None for no cap. Days and months are those of UTC."""

    per_task_usd: float | None = Field(default=None, gt=0, description="Most that one task may cost.")
    per_day_usd: float | None = Field(default=None, gt=0, description="Most that the caller may spend in a day.")
    per_month_usd: float | None = Field(default=None, gt=0, description="Most that the caller may spend in a month.")
