"""Money: what was spent, by whom and on what, per day, and what is left of the spending limits."""

from datetime import UTC, date, datetime, timedelta
from typing import Any

from outlast.api.console.framework import Context, Section, View
from outlast.api.console.tasks import whose
from outlast.contracts.operations import UsageQuery

section = Section("Money")
_BY = ("caller", "tool", "actor", "model", "session")
_DAYS = 30


@section.page("money", "money.html")
async def money(view: View) -> Context:
    """Spending of the last 30 days, or of the days in the address."""
    today = datetime.now(UTC).date()
    by = view.of_query("by") or ("caller" if view.sees_all else "tool")
    caller = view.of_query("caller")
    period: dict[str, Any] = {
        "from": view.of_query("from") or today - timedelta(days=_DAYS - 1),
        "to": view.of_query("to") or today,
        **whose(view, caller),
    }
    usage, principal = view.services.usage, view.principal
    table = await usage.report(principal, UsageQuery.model_validate({**period, "by": (by,)}))
    days = await usage.report(principal, UsageQuery.model_validate({**period, "by": ("day",)}))
    spent = {row.day: row.cost_usd for row in days.rows}
    most = max(spent.values(), default=0)
    return {
        "report": table,
        "by": by,
        "choices": _BY if view.sees_all else _BY[1:],
        "bars": [(day, spent.get(day, 0), 100 * spent.get(day, 0) / most if most else 0) for day in _between(days)],
        "caps": table.caps,
        "caller": caller,
        "period": period,
    }


def _between(report: Any) -> list[date]:
    return [report.first_day + timedelta(days=n) for n in range((report.last_day - report.first_day).days + 1)]
